// Products whose plans ask for forms of their operands.
#include "service/engine/product.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "jit/plan/form.h"
#include "service/engine/tensor_locks.h"
#include "service/engine/tensor_store.h"
#include "tests/service/deriving_device.h"
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
  }
  EXPECT_LT(store_.bytes(), kept) << "the old form counts no longer";
  ASSERT_TRUE(Run(TensorsProduct()).ok());
  EXPECT_EQ(device_.derivations(), 2);
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
