// Uploads: old elements or new ones, never a mix.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/service/answer.h"
#include "tests/service/gate.h"
#include "tests/service/test_engine.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using testing::Answer;
using testing::Eventually;
using testing::Gate;
using testing::TestEngine;

class UploadsTest : public ::testing::Test {
 protected:
  ~UploadsTest() override { gate_.Open(); }

  static std::vector<float> All(float value) {
    return std::vector<float>(6, value);
  }
  absl::Status Upload(const std::shared_ptr<Tensor>& tensor, float value) {
    auto upload = engine_->BeginUpload(tensor);
    if (!upload.ok()) return upload.status();
    EXPECT_TRUE(engine_.Send(*upload, value).Wait().ok());
    return engine_.Finish(*std::move(upload)).Wait().status();
  }

  Gate gate_;
  std::shared_ptr<testing::Hooks> hooks_ = std::make_shared<testing::Hooks>();
  TestEngine engine_{{.tensors = {.max_bytes = 100}}, {hooks_}};
};

TEST_F(UploadsTest, ReplaceAllElementsAtOnce) {
  const auto tensor = engine_.Tensor();
  auto upload = engine_->BeginUpload(tensor);
  ASSERT_TRUE(upload.ok());
  ASSERT_TRUE(engine_.Send(*upload, 7).Wait().ok());
  EXPECT_EQ(engine_.Elements(tensor), All(0)) << "it is not finished";
  ASSERT_TRUE(engine_.Finish(*upload).Wait().ok());
  EXPECT_EQ(engine_.Elements(tensor), All(7));
}

TEST_F(UploadsTest, OneThatIsGivenUpChangesNothing) {
  const auto tensor = engine_.Tensor();
  ASSERT_TRUE(Upload(tensor, 1).ok());
  {
    auto upload = engine_->BeginUpload(tensor);
    ASSERT_TRUE(engine_.Send(*upload, 2).Wait().ok());
  }
  EXPECT_EQ(engine_.Elements(tensor), All(1));
}

TEST_F(UploadsTest, OfTwoAtOnceOneStandsAndTheOtherIsTold) {
  const auto tensor = engine_.Tensor();
  auto first = engine_->BeginUpload(tensor).value();
  auto second = engine_->BeginUpload(tensor).value();
  ASSERT_TRUE(engine_.Send(first, 1).Wait().ok());
  ASSERT_TRUE(engine_.Send(second, 2).Wait().ok());
  EXPECT_TRUE(engine_.Finish(second).Wait().ok());
  EXPECT_EQ(engine_.Finish(first).Wait().status().code(), StatusCode::kAborted);
  EXPECT_EQ(engine_.Elements(tensor), All(2));
  EXPECT_EQ(tensor->version(), 1);
  // The next one is at odds with nobody.
  EXPECT_TRUE(Upload(tensor, 3).ok());
}

TEST_F(UploadsTest, AProductHasWrittenOnceItRan) {
  hooks_->multiply = [this](const auto&, const auto&) {
    gate_.Pass();
    return absl::InternalError("broken");
  };
  const auto from = engine_.Tensor();
  auto first = engine_.Tensor(), second = engine_.Tensor();
  if (second < first) std::swap(first, second);  // As they are locked.
  gate_.Close();
  auto fails = engine_.Multiply(TestEngine::Copy(from, second));
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  auto waits = engine_.Multiply(TestEngine::Copy(second, first), 0,
                                {.cancelled = cancelled});
  *cancelled = true;
  EXPECT_EQ(waits.Wait().status().code(), StatusCode::kCancelled);
  EXPECT_EQ(first->version(), 0) << "it was held, and is as it was";
  gate_.Open();
  EXPECT_EQ(fails.Wait().status().code(), StatusCode::kInternal);
  EXPECT_EQ(second->version(), 1) << "what it wrote before is there";
}

// By whichever of the ways that products come.
TEST_F(UploadsTest, AProductThatWasNotLaunchedHasWrittenNothing) {
  hooks_->upload = [] { return absl::InternalError("broken"); };
  const auto tensor = engine_.Tensor();
  const std::string zeros(24, '\0');
  Product product = TestEngine::Copy(tensor, tensor);
  product.c = {.pieces = {zeros}, .pitch_bytes = 12};
  EXPECT_EQ(engine_.Multiply(product).Wait().status().message(), "broken");

  Answer<GroupResult> group;
  engine_->MultiplyTogether({product}, 0, {}, group.done());
  EXPECT_EQ(group.Wait().status().message(), "groups[0]: broken");

  const auto room =
      engine_->MakeTemporaries({tensor->layout()}, 0, "").value()[0];
  Answer<SequenceResult> steps;
  engine_->RunInOrder({.rooms = {room},
                       .operands = {{"c", product.c, room}},
                       .steps = {TestEngine::Copy(room, tensor)}},
                      0, {}, steps.done());
  EXPECT_EQ(steps.Wait().status().message(), "broken");
  EXPECT_EQ(tensor->version(), 0);
}

TEST_F(UploadsTest, CountTwiceWhileOldAndNewElementsExist) {
  const auto tensor = engine_.Tensor();  // 32 bytes on the device.
  EXPECT_EQ(engine_->tensors().bytes(), 32);
  auto upload = engine_->BeginUpload(tensor).value();
  EXPECT_EQ(engine_->tensors().bytes(), 64);
  auto another = engine_->BeginUpload(tensor).value();
  EXPECT_EQ(engine_->tensors().bytes(), 96);
  EXPECT_EQ(engine_->BeginUpload(tensor).status().code(),
            StatusCode::kResourceExhausted);
  another.reset();
  ASSERT_TRUE(engine_.Send(upload, 1).Wait().ok());
  ASSERT_TRUE(engine_.Finish(upload).Wait().ok());
  upload.reset();
  EXPECT_EQ(engine_->tensors().bytes(), 32);
}

// Who then begins the next upload finds it.
TEST_F(UploadsTest, WhoIsToldThatOneIsFinishedHasTheRoomOfTheOldElements) {
  const auto tensor = engine_.Tensor();
  const auto upload = engine_->BeginUpload(tensor).value();
  ASSERT_TRUE(engine_.Send(upload, 1).Wait().ok());
  int64_t bytes = 0;
  engine_->FinishUpload(upload, {}, [&](const absl::StatusOr<std::monostate>&) {
    bytes = engine_->tensors().bytes();
  });
  EXPECT_EQ(bytes, 32);
}

TEST_F(UploadsTest, WhoIsToldThatAPartIsThereAloneHasWhatWasDeleted) {
  auto tensor = engine_.Tensor();
  const std::weak_ptr<Tensor> deleted = tensor;
  const auto upload = engine_->BeginUpload(tensor).value();
  hooks_->upload = [this] {
    gate_.Pass();
    return absl::OkStatus();
  };
  gate_.Close();
  const std::string zeros(24, '\0');
  const absl::Span<const char> piece = zeros;
  std::promise<bool> gone;
  engine_->Upload(upload, {{&piece, 1}, 12}, {0, 2}, {},
                  [&](const absl::StatusOr<std::monostate>&) {
                    gone.set_value(deleted.expired());
                  });
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  ASSERT_TRUE(engine_->tensors().Delete(tensor->identity().handle).ok());
  tensor.reset();
  gate_.Open();
  EXPECT_TRUE(gone.get_future().get());
}

// As several streams of one transfer bring them.
TEST_F(UploadsTest, LinesThatComeAtTheSameTimeShareOneMatrix) {
  std::atomic<int> allocated = 0;
  std::atomic<int> synchronized = 0;
  std::atomic<int> synchronized_before_use = 0;
  const auto tensor = engine_.Tensor();
  hooks_->allocate = [&] {
    ++allocated;
    gate_.Pass();
    return absl::OkStatus();
  };
  hooks_->synchronize = [&] {
    ++synchronized;
    return absl::OkStatus();
  };
  hooks_->upload = [&] {
    if (synchronized > 0) ++synchronized_before_use;
    return absl::OkStatus();
  };
  auto upload = engine_->BeginUpload(tensor).value();
  gate_.Close();
  const std::vector<float> row = {4, 4, 4};
  const absl::Span<const char> bytes(reinterpret_cast<const char*>(row.data()),
                                     12);
  std::vector<testing::Answer<std::monostate>> sent(2);
  for (int i = 0; i < 2; ++i) {
    engine_->Upload(upload, {{&bytes, 1}, 12}, {i, 1}, {}, sent[i].done());
  }
  gate_.Open();
  for (auto& answer : sent) EXPECT_TRUE(answer.Wait().ok());
  EXPECT_EQ(allocated, 1);
  EXPECT_EQ(synchronized_before_use, 2) << "other lanes may use it then";
  ASSERT_TRUE(engine_.Finish(upload).Wait().ok());
  EXPECT_EQ(engine_.Elements(tensor), All(4));
}

// A client may use its memory again then, for something else.
TEST_F(UploadsTest, WhoIsToldThatAPartIsThereHasItsBytesBack) {
  const auto tensor = engine_.Tensor();
  const auto upload = engine_->BeginUpload(tensor).value();
  std::atomic<bool> in_flight = false;
  hooks_->upload = [&] {
    in_flight = true;
    return absl::OkStatus();
  };
  hooks_->synchronize = [&] {
    in_flight = false;
    return absl::OkStatus();
  };
  ASSERT_TRUE(engine_.Send(upload, 1).Wait().ok());
  EXPECT_FALSE(in_flight);
}

// In several turns, else it would have what others left.
TEST(CreationTest, ALargeTensorIsClearedToItsEnd) {
  std::atomic<int64_t> cleared = 0;
  const auto hooks = std::make_shared<testing::Hooks>();
  hooks->clear = [&](int64_t bytes) {
    cleared += bytes;
    return absl::OkStatus();
  };
  TestEngine engine({}, {hooks}, int64_t{1} << 28);
  const jit::MatrixLayout layout = {jit::DataType::kF32, jit::Order::kRowMajor,
                                    3, 10 << 20};
  ASSERT_TRUE(engine.Create({.layout = layout}).Wait().ok());
  EXPECT_EQ(cleared, layout.device_bytes());
}

class SparseUploadsTest : public UploadsTest {
 protected:
  // Two rows of 4 values of f32 and 1 byte of metadata.
  static constexpr jit::MatrixLayout kLayout = {
      jit::DataType::kF32, jit::Order::kRowMajor, 2, 4, 1, true};

  static std::string Rows(char value, char first, char second) {
    std::string rows(18, value);
    rows[8] = first;
    rows[17] = second;
    return rows;
  }
  std::shared_ptr<Tensor> Create() {
    testing::Answer<std::shared_ptr<Tensor>> answer;
    engine_->CreateTensor({.layout = kLayout}, {}, answer.done());
    return answer.Wait().value();
  }
  // In two parts, a row each.
  absl::Status Send(const std::shared_ptr<Tensor>& tensor,
                    const std::string& rows) {
    auto upload = engine_->BeginUpload(tensor);
    if (!upload.ok()) return upload.status();
    (*upload)->name = "w";
    for (int i = 0; i < 2; ++i) {
      const absl::Span<const char> row(rows.data() + 9 * i, 9);
      testing::Answer<std::monostate> sent;
      engine_->Upload(*upload, {{&row, 1}, 9}, {i, 1}, {}, sent.done());
      if (absl::Status status = sent.Wait().status(); !status.ok()) {
        return status;
      }
    }
    return engine_.Finish(*std::move(upload)).Wait().status();
  }
  std::string Elements(const std::shared_ptr<Tensor>& tensor) {
    testing::Answer<TensorPart> answer;
    engine_->Download(tensor, {0, 2}, 9, {}, answer.done());
    const absl::StatusOr<TensorPart>& part = answer.Wait();
    const absl::Span<char> bytes = part->bytes->bytes();
    return {bytes.data(), bytes.size()};
  }
};

TEST_F(SparseUploadsTest, NewTensorsHaveZerosInLegalPlaces) {
  EXPECT_EQ(Elements(Create()), Rows(0, 0x44, 0x44));
}

TEST_F(SparseUploadsTest, IllegalMetadataChangeNothing) {
  const auto tensor = Create();
  const std::string right = Rows(1, static_cast<char>(0xe4), 0x4e);
  ASSERT_TRUE(Send(tensor, right).ok());
  const absl::Status refused = Send(tensor, Rows(2, 0x44, 0x49));
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "w has metadata 0x9 for k 0 to 1 of row 1; allowed: 0x4 or 0xe, "
            "the place of one of two elements");
  EXPECT_EQ(Elements(tensor), right);
  const std::string next = Rows(3, 0x4e, 0x44);
  EXPECT_TRUE(Send(tensor, next).ok());
  EXPECT_EQ(Elements(tensor), next);
}

// The elements change between products, not under one.
TEST_F(UploadsTest, AreFinishedWhenNobodyUsesTheOldElements) {
  hooks_->multiply = [this](const auto&, const auto&) {
    gate_.Pass();
    return absl::OkStatus();
  };
  const auto from = engine_.Tensor();
  const auto to = engine_.Tensor();
  ASSERT_TRUE(Upload(from, 1).ok());
  gate_.Close();
  auto product = engine_.Multiply(TestEngine::Copy(from, to));
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  auto upload = engine_->BeginUpload(from).value();
  ASSERT_TRUE(engine_.Send(upload, 2).Wait().ok());
  auto finish = engine_.Finish(upload);
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_FALSE(finish.there()) << "a product reads the old elements";
  gate_.Open();
  EXPECT_TRUE(product.Wait().ok());
  EXPECT_TRUE(finish.Wait().ok());
  EXPECT_EQ(engine_.Elements(to), All(1));
  EXPECT_EQ(engine_.Elements(from), All(2));
}

TEST_F(UploadsTest, DownloadsDoNotSeeAProductHalfWritten) {
  hooks_->multiply = [this](const auto&, const auto&) {
    gate_.Pass();
    return absl::OkStatus();
  };
  const auto from = engine_.Tensor();
  const auto to = engine_.Tensor();
  ASSERT_TRUE(Upload(from, 5).ok());
  gate_.Close();
  auto product = engine_.Multiply(TestEngine::Copy(from, to));
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  auto download = engine_.Download(to);
  auto other = engine_.Download(from);
  EXPECT_TRUE(other.Wait().ok()) << "readers share";
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_FALSE(download.there());
  gate_.Open();
  EXPECT_TRUE(product.Wait().ok());
  ASSERT_TRUE(download.Wait().ok());
}

// While the client is silent, nothing keeps the tensor.
TEST_F(UploadsTest, DoNotKeepATensorThatIsDeleted) {
  auto tensor = engine_.Tensor();
  auto upload = engine_->BeginUpload(tensor).value();
  ASSERT_TRUE(engine_.Send(upload, 1).Wait().ok());
  ASSERT_TRUE(engine_->tensors().Delete(tensor->identity().handle).ok());
  tensor.reset();
  EXPECT_TRUE(Eventually([&] { return engine_->tensors().bytes() == 0; }));
  EXPECT_EQ(engine_.Send(upload, 1).Wait().status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(engine_.Finish(upload).Wait().status().code(),
            StatusCode::kNotFound);
}

TEST_F(UploadsTest, EndWhenTheirClientDoesNotWaitForTheTurn) {
  hooks_->multiply = [this](const auto&, const auto&) {
    gate_.Pass();
    return absl::OkStatus();
  };
  const auto from = engine_.Tensor();
  const auto to = engine_.Tensor();
  ASSERT_TRUE(engine_.Multiply(TestEngine::Copy(from, to)).Wait().ok());
  gate_.Close();
  auto product = engine_.Multiply(TestEngine::Copy(from, to));
  ASSERT_TRUE(gate_.WaitForArrivals(2));
  auto upload = engine_->BeginUpload(from).value();
  ASSERT_TRUE(engine_.Send(upload, 2).Wait().ok());
  auto finish =
      engine_.Finish(upload, {.deadline = absl::Now() + absl::Milliseconds(5)});
  EXPECT_EQ(finish.Wait().status().code(), StatusCode::kDeadlineExceeded);
  gate_.Open();
  EXPECT_TRUE(product.Wait().ok());
  EXPECT_EQ(engine_.Elements(from), All(0));
}

// Each that ends lets in the next one, but not within its own call: a client
// with many calls could use up the stack of a thread.
TEST_F(UploadsTest, ThatWaitForATensorEndOneAfterTheOther) {
  constexpr int kUploads = 20'000;
  TestEngine engine({}, {hooks_});
  hooks_->multiply = [this](const auto&, const auto&) {
    gate_.Pass();
    return absl::OkStatus();
  };
  const auto from = engine.Tensor();
  const auto to = engine.Tensor();
  gate_.Close();
  auto product = engine.Multiply(TestEngine::Copy(from, to));
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  auto first = engine->BeginUpload(from).value();
  ASSERT_TRUE(engine.Send(first, 2).Wait().ok());
  std::vector<testing::Answer<std::monostate>> finished;
  finished.push_back(engine.Finish(first));
  while (finished.size() < kUploads) {
    finished.push_back(engine.Finish(engine->BeginUpload(from).value()));
  }
  gate_.Open();
  EXPECT_TRUE(finished[0].Wait().ok());
  for (int i = 1; i < kUploads; ++i) {
    ASSERT_EQ(finished[i].Wait().status().code(), StatusCode::kAborted) << i;
  }
  EXPECT_EQ(engine.Elements(from), All(2));
}

// A lane's work is enqueued, not done, when Multiply returns.
TEST_F(UploadsTest, NobodyReadsWhatALaneMayStillWrite) {
  Gate working;
  hooks_->synchronize = [&] {
    working.Pass();
    return absl::OkStatus();
  };
  const auto from = engine_.Tensor();
  const auto to = engine_.Tensor();
  ASSERT_TRUE(engine_.Multiply(TestEngine::Copy(from, to)).Wait().ok());
  const int before = working.arrived();
  working.Close();
  auto product = engine_.Multiply(TestEngine::Copy(from, to));
  ASSERT_TRUE(working.WaitForArrivals(before + 1));
  auto download = engine_.Download(to);
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_FALSE(product.there());
  EXPECT_FALSE(download.there());
  working.Open();
  EXPECT_TRUE(product.Wait().ok());
  EXPECT_TRUE(download.Wait().ok());
}

TEST_F(UploadsTest, AProductThatIsCancelledWhileItsOperandsGoIsNotLaunched) {
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  hooks_->upload = [&] {
    *cancelled = true;
    return absl::OkStatus();
  };
  const std::string bytes(1000, '\0');
  Product product = {.problem = TestEngine::Problem(),
                     .d = {.pitch_bytes = 12}};
  product.a = {.pieces = {absl::string_view(bytes).substr(0, 16)},
               .pitch_bytes = 8};
  product.b = {.pieces = {absl::string_view(bytes).substr(0, 24)},
               .pitch_bytes = 6};
  hooks_->multiply = [this](const auto&, const auto&) {
    gate_.Pass();
    return absl::OkStatus();
  };
  const auto result =
      engine_.Multiply(product, 0, {.cancelled = cancelled}).Wait();
  EXPECT_EQ(result.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(gate_.arrived(), 0);
}

TEST_F(UploadsTest, TemporariesHaveRoomOnceAndElementsWhenTheyCome) {
  const jit::MatrixLayout layout = TestEngine::Problem().d();  // 32 bytes.
  auto temporaries =
      engine_->MakeTemporaries({layout, layout}, 0, "one").value();
  EXPECT_EQ(engine_->tensors().bytes(), 64);
  EXPECT_EQ(engine_->tensors().count(), 0) << "nobody can name them";
  EXPECT_EQ(
      engine_->MakeTemporaries({layout, layout}, 0, "one").status().code(),
      StatusCode::kResourceExhausted);
  EXPECT_EQ(engine_->tensors().bytes(), 64) << "all or none";
  // The one gets its elements by an upload, the other by a product.
  ASSERT_TRUE(Upload(temporaries[0], 7).ok());
  EXPECT_EQ(engine_->tensors().bytes(), 64);
  ASSERT_TRUE(engine_.Multiply(TestEngine::Copy(temporaries[0], temporaries[1]))
                  .Wait()
                  .ok());
  EXPECT_EQ(engine_.Elements(temporaries[1]), All(7));
  EXPECT_EQ(engine_->tensors().bytes(), 64);
  // Elements that they have are replaced as those of others.
  auto again = engine_->BeginUpload(temporaries[1]).value();
  EXPECT_EQ(engine_->tensors().bytes(), 96);
  again.reset();
  // The lane may hold what it used a moment longer.
  temporaries.pop_back();
  EXPECT_TRUE(Eventually([this] { return engine_->tensors().bytes() == 32; }));
  temporaries.clear();
  EXPECT_TRUE(Eventually([this] { return engine_->tensors().bytes() == 0; }));
}

TEST_F(UploadsTest, RoomOfTemporariesIsBackWhoeverHasIt) {
  const jit::MatrixLayout layout = TestEngine::Problem().d();
  auto temporaries = engine_->MakeTemporaries({layout}, 0, "").value();
  auto upload = engine_->BeginUpload(temporaries[0]).value();
  ASSERT_TRUE(engine_.Send(upload, 1).Wait().ok());
  upload.reset();  // Not finished. The lane may hold it a moment longer.
  EXPECT_TRUE(Eventually([this] { return engine_->tensors().bytes() == 0; }));
  temporaries.clear();
  EXPECT_EQ(engine_->tensors().bytes(), 0);
}

}  // namespace
}  // namespace gemmd::engine
