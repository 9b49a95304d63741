// Products whose plans ask for forms of their operands, and how batches come to
// the device.
#include "service/engine/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "jit/plan/form.h"
#include "service/engine/tensor_locks.h"
#include "service/engine/tensor_store.h"
#include "tests/service/deriving_device.h"
#include "tests/service/fake_device.h"
#include "tests/service/fake_region.h"

namespace gemmd::engine {
namespace {

using jit::DataType;
using jit::Form;

class ProductFormsTest : public ::testing::Test {
 protected:
  ProductFormsTest() {
    problem_.m = 20;
    problem_.n = 30;
    problem_.k = 40;
    problem_.a_type = problem_.b_type = DataType::kS8;
    problem_.c_type = problem_.d_type = DataType::kF32;
    problem_.a_order = jit::Order::kColumnMajor;
    jit::CompiledKernel compiled;
    compiled.cubin = "cubin";
    auto kernel = std::make_shared<LoadedKernel>();
    kernel->kernel = device_.Load(compiled, {}).value();
    prepared_.kernel = std::move(kernel);
    prepared_.forms = &forms_;
    testing::AddForm(forms_, device_, {Form::kTransposed, DataType::kS8});
    prepared_.plan.a_form = Form::kTransposed;
  }

  std::shared_ptr<Tensor> NewTensor(const jit::MatrixLayout& layout) {
    auto tensor = std::make_shared<Tensor>(
        Tensor::Identity{.handle = TensorStore::NewHandle()},
        Tensor::Contents{store_.Reserve(0, layout.device_bytes()).value(),
                         lane_->Allocate(layout).value()});
    EXPECT_TRUE(store_.Insert(tensor).ok());
    return tensor;
  }

  Input Bytes(const jit::MatrixLayout& layout) {
    bytes_ = std::string(static_cast<size_t>(layout.device_bytes()), 'x');
    return {.pieces = {absl::MakeConstSpan(bytes_)},
            .pitch_bytes = layout.width_bytes()};
  }

  Product TensorsProduct() {
    return {.problem = problem_,
            .a = {.tensor = a_},
            .b = {.tensor = b_},
            .d = {.pitch_bytes = problem_.d().width_bytes()}};
  }

  absl::Status Run(const Product& product) {
    Phases phases;
    return RunProduct(*lane_, prepared_, product, {}, phases).status();
  }

  testing::DerivingDevice device_{1 << 20};
  TensorStore store_{{.max_bytes = 8000}, {1 << 20}};
  Forms forms_{device_, 0,
               [this](int64_t bytes) -> std::shared_ptr<const void> {
                 auto hold = store_.ReserveSpare(0, bytes);
                 if (!hold.ok()) return nullptr;
                 return std::make_shared<const QuotaHold>(*std::move(hold));
               }};
  std::unique_ptr<device::Lane> lane_ = device_.CreateLane().value();
  Prepared prepared_;
  jit::Problem problem_;
  std::string bytes_;
  std::shared_ptr<Tensor> a_ =
      NewTensor({DataType::kS8, jit::Order::kColumnMajor, 20, 40});
  std::shared_ptr<Tensor> b_ =
      NewTensor({DataType::kS8, jit::Order::kRowMajor, 40, 30});
};

TEST_F(ProductFormsTest, ATensorsFormIsDerivedOnceAndReadFromThenOn) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Run(TensorsProduct()).ok());
  EXPECT_EQ(device_.derivations(), 1);
  EXPECT_EQ(device_.a(), jit::FormLayout(problem_.a(), Form::kTransposed));
  EXPECT_EQ(device_.b(), problem_.b()) << "B is read as it is stored";
}

TEST_F(ProductFormsTest, AFormThatIsKeptIsReadyForEveryLane) {
  ASSERT_TRUE(Run(TensorsProduct()).ok());
  // One for the form, one for the product.
  EXPECT_EQ(device_.synchronizations(), 2);
}

TEST_F(ProductFormsTest, AWrittenTensorIsDerivedAnew) {
  ASSERT_TRUE(Run(TensorsProduct()).ok());
  const int64_t kept = store_.bytes();
  {
    LockTable table;
    TensorLocks locks(table);
    ASSERT_TRUE(locks.Acquire({}, {a_}, [] {}));
    TensorLocks::NoteWrite(*a_);
  }
  EXPECT_LT(store_.bytes(), kept) << "the old form counts no longer";
  ASSERT_TRUE(Run(TensorsProduct()).ok());
  EXPECT_EQ(device_.derivations(), 2);
}

TEST_F(ProductFormsTest, AWriteThatNeverBeganLeavesForms) {
  ASSERT_TRUE(Run(TensorsProduct()).ok());
  {
    LockTable table;
    TensorLocks locks(table);
    ASSERT_TRUE(locks.Acquire({}, {a_}, [] {}));
  }
  ASSERT_TRUE(Run(TensorsProduct()).ok());
  EXPECT_EQ(device_.derivations(), 1);
}

TEST_F(ProductFormsTest, KeptFormsCountAgainstTheQuota) {
  const int64_t before = store_.bytes();
  ASSERT_TRUE(Run(TensorsProduct()).ok());
  EXPECT_EQ(store_.bytes() - before,
            jit::FormLayout(problem_.a(), Form::kTransposed).device_bytes());
}

TEST_F(ProductFormsTest, ADeletedTensorTakesItsFormsAlong) {
  ASSERT_TRUE(Run(TensorsProduct()).ok());
  ASSERT_TRUE(store_.Delete(a_->identity().handle).ok());
  a_.reset();
  EXPECT_EQ(store_.bytes(), b_->layout().device_bytes());
}

TEST_F(ProductFormsTest, FormsMakeRoomForTensors) {
  ASSERT_TRUE(Run(TensorsProduct()).ok());
  const int64_t free = 8000 - store_.bytes();
  auto hold = store_.Reserve(0, free + 1);
  EXPECT_TRUE(hold.ok()) << hold.status();
  ASSERT_TRUE(Run(TensorsProduct()).ok());
  EXPECT_EQ(device_.derivations(), 2);
}

TEST_F(ProductFormsTest, FormsMakeNoRoomForWhoHasTooMuchHimself) {
  ASSERT_TRUE(Run(TensorsProduct()).ok());
  const int64_t kept = store_.bytes();
  EXPECT_FALSE(store_.Reserve(0, 6001, "me").ok()) << "of three quarters";
  EXPECT_EQ(store_.bytes(), kept);
  ASSERT_TRUE(Run(TensorsProduct()).ok());
  EXPECT_EQ(device_.derivations(), 1);
}

TEST_F(ProductFormsTest, WithoutQuotaTheFormServesOneProduct) {
  const auto rest = store_.Reserve(0, 8000 - store_.bytes());
  ASSERT_TRUE(rest.ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Run(TensorsProduct()).ok());
  EXPECT_EQ(device_.derivations(), 2);
  EXPECT_EQ(store_.bytes(), 8000);
}

TEST_F(ProductFormsTest, InlineOperandsAreDerivedInEachRequest) {
  Product product = TensorsProduct();
  product.a = Bytes(problem_.a());
  const int64_t before = store_.bytes();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Run(product).ok());
  EXPECT_EQ(device_.derivations(), 2);
  EXPECT_EQ(device_.a(), jit::FormLayout(problem_.a(), Form::kTransposed));
  EXPECT_EQ(store_.bytes(), before);
}

// Whoever planned it forgot: a lane is no place to compile.
TEST_F(ProductFormsTest, AFormWithoutAKernelIsAnError) {
  Forms empty(device_, 0, nullptr);
  prepared_.forms = &empty;
  EXPECT_EQ(Run(TensorsProduct()).code(), absl::StatusCode::kInternal);
}

TEST_F(ProductFormsTest, ADeviceThatReadsWhatIsStoredDerivesNothing) {
  auto host = host::CreateHostDevice({.memory_bytes = 1 << 20});
  Forms none(*host, 0, nullptr);
  prepared_.forms = &none;
  ASSERT_TRUE(Run(TensorsProduct()).ok());
  EXPECT_EQ(device_.derivations(), 0);
  EXPECT_EQ(device_.a(), problem_.a());
}

class BatchesTest : public ::testing::Test {
 protected:
  BatchesTest() {
    hooks_->upload = [this] {
      ++uploads_;
      *gone_ = uploads_ == gone_after_;
      return absl::OkStatus();
    };
  }

  // `count` matrices that lie so, in pieces of `size`.
  Input Lay(const jit::MatrixLayout& layout, int64_t pitch_bytes,
            int64_t matrix_bytes, size_t size) {
    bytes_.resize((layout.count - 1) * matrix_bytes +
                  (layout.matrix_lines() - 1) * pitch_bytes +
                  layout.width_bytes());
    for (size_t i = 0; i < bytes_.size(); ++i) {
      bytes_[i] = static_cast<char>(i * 131 + i / 251);
    }
    Input input = {.pitch_bytes = pitch_bytes, .matrix_bytes = matrix_bytes};
    for (size_t at = 0; at < bytes_.size(); at += size) {
      input.pieces.push_back(absl::MakeConstSpan(bytes_).subspan(at, size));
      input.pieces.push_back({});  // As a transport may have them.
    }
    return input;
  }

  // What is on the device then, line by line.
  std::string Upload(const Input& input, const jit::MatrixLayout& layout) {
    const auto matrix = lane_->Allocate(layout).value();
    const RequestContext context = {.cancelled = gone_};
    status_ = UploadBatch(*lane_, input, context, *matrix);
    if (!status_.ok()) return "";
    auto lines =
        lane_->Download(*matrix, {0, layout.lines()}, layout.width_bytes());
    EXPECT_TRUE(lines.ok()) << lines.status();
    return {(*lines)->bytes().data(), (*lines)->bytes().size()};
  }
  std::string Expected(const Input& input, const jit::MatrixLayout& layout) {
    std::string lines;
    for (int64_t i = 0; i < layout.lines(); ++i) {
      lines += bytes_.substr(i / layout.matrix_lines() * input.matrix_bytes +
                                 i % layout.matrix_lines() * input.pitch_bytes,
                             layout.width_bytes());
    }
    return lines;
  }

  const std::shared_ptr<testing::Hooks> hooks_ =
      std::make_shared<testing::Hooks>();
  testing::FakeDevice device_{"fake", hooks_, int64_t{64} << 20};
  std::unique_ptr<device::Lane> lane_ = device_.CreateLane().value();
  const std::shared_ptr<std::atomic<bool>> gone_ =
      std::make_shared<std::atomic<bool>>(false);
  std::string bytes_;
  absl::Status status_;
  int uploads_ = 0;
  int gone_after_ = -1;
};

jit::MatrixLayout BatchOf(int64_t count, int64_t rows, int64_t columns) {
  return {DataType::kU8, jit::Order::kRowMajor, rows, columns, count};
}

TEST_F(BatchesTest, MatricesLieAnyDistanceApart) {
  for (const jit::MatrixLayout& layout :
       {BatchOf(100, 1, 5), BatchOf(100, 3, 5), BatchOf(3000, 2, 30),
        BatchOf(3, 4, 40'000)}) {
    const int64_t width = layout.width_bytes();
    const int64_t tight = layout.matrix_lines() * width;
    // One for all, overlapping, tight, apart.
    for (const int64_t stride :
         {int64_t{0}, int64_t{1}, tight - 1, tight, tight + 3}) {
      for (const size_t size : {17, 1 << 20}) {
        const Input input = Lay(layout, width, stride, size);
        EXPECT_TRUE(Upload(input, layout) == Expected(input, layout))
            << stride << " " << size << " " << status_;
      }
    }
    // Lines of one between those of others.
    const Input input = Lay(layout, layout.count * width, width, 17);
    EXPECT_TRUE(Upload(input, layout) == Expected(input, layout)) << status_;
  }
}

TEST_F(BatchesTest, SmallMatricesTravelTogether) {
  const jit::MatrixLayout lines = BatchOf(10'000, 1, 6);
  Upload(Lay(lines, 6, 7, 4096), lines);
  EXPECT_EQ(uploads_, 1);
  const jit::MatrixLayout matrices = BatchOf(10'000, 2, 3);
  Upload(Lay(matrices, 3, 7, 4096), matrices);
  EXPECT_EQ(uploads_, 2);
  Upload(Lay(matrices, 3, 5, 4096), matrices);
  EXPECT_EQ(uploads_, 3);
  const jit::MatrixLayout large = BatchOf(4, 2, 40'000);
  Upload(Lay(large, 40'000, 80'001, 4096), large);
  EXPECT_EQ(uploads_, 7) << "nothing is copied twice for that";
}

TEST_F(BatchesTest, WhoHasGoneIsSentNoMore) {
  gone_after_ = 1;
  for (const jit::MatrixLayout& layout :
       {BatchOf(100, 2, 3000), BatchOf(100, 2, 40'000)}) {
    uploads_ = 0;
    Upload(Lay(layout, layout.width_bytes(), 7, 4096), layout);
    EXPECT_EQ(status_.code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(uploads_, 1);
    *gone_ = false;
  }
}

// A walk through all pieces for each matrix would be 10^10 steps and more.
TEST_F(BatchesTest, AMatrixCostsTheSameInAnyNumberOfPieces) {
  const jit::MatrixLayout layout = BatchOf(1 << 17, 2, 1);
  for (const auto& [pitch, stride] : {std::pair(1, 3), {2, 1}, {1 << 18, 1}}) {
    const Input input = Lay(layout, pitch, stride, 3);
    const std::clock_t before = std::clock();
    Upload(input, layout);
    EXPECT_LT(std::clock() - before, 3 * CLOCKS_PER_SEC) << pitch;
    EXPECT_TRUE(status_.ok()) << status_;
  }
}

// What is read or written after the answer has to be the product's own.
TEST(MayBeAbandonedTest, UnlessBytesOfTheOneWhoAsksAreUsed) {
  const std::string bytes = "bytes";
  const Input inline_bytes = {.pieces = {absl::MakeConstSpan(bytes)}};
  Input in_region = inline_bytes;
  in_region.region = std::make_shared<testing::FakeRegion>(0);
  EXPECT_TRUE(MayBeAbandoned({}));
  EXPECT_FALSE(MayBeAbandoned({.a = in_region, .b = inline_bytes}));
  EXPECT_TRUE(MayBeAbandoned({.a = in_region, .b = in_region}));
  const auto owner = std::make_shared<int>();
  EXPECT_TRUE(MayBeAbandoned({.b = inline_bytes, .bytes = owner}));
  EXPECT_FALSE(
      MayBeAbandoned({.d = {.place = {in_region.region, 0}}, .bytes = owner}));
  EXPECT_FALSE(MayBeAbandoned({.auxiliary = {.place = {in_region.region, 0}}}));
}

}  // namespace
}  // namespace gemmd::engine
