#include "service/engine/engine.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "service/host/host_device.h"
#include "tests/service/answer.h"
#include "tests/service/fake_cache.h"
#include "tests/service/gate.h"
#include "tests/service/matrix.h"
#include "tests/service/prepare.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using jit::DataType;
using testing::Answer;
using testing::Eventually;

// Two products' worth of bytes that live as long as the test.
class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::unique_ptr<device::Device>> devices;
    devices.push_back(host::CreateHostDevice({.memory_bytes = 1 << 20}));
    engine_ = Engine::Create({.executor = {.lanes = 1, .max_queue = 3},
                              .tensors = {.max_bytes = 1 << 16},
                              .preparer = {.lookup_threads = 1,
                                           .compile_threads = 1,
                                           .max_waiting = 3}},
                             std::move(devices), cache_, templates_)
                  .value();
  }

  static jit::Problem Problem(int64_t m = 2) {
    return {.m = m,
            .n = 3,
            .k = 4,
            .c_type = DataType::kF32,
            .d_type = DataType::kF32};
  }

  Input Bytes(const jit::MatrixLayout& layout, float value) {
    bytes_.push_back(testing::Fill(layout, layout.width(),
                                   [=](int64_t, int64_t) { return value; }));
    return {.pieces = {absl::MakeConstSpan(bytes_.back())},
            .pitch_bytes = layout.width_bytes()};
  }

  Product OnesTimesTwos(const jit::Problem& problem = Problem()) {
    return {.problem = problem,
            .a = Bytes(problem.a(), 1),
            .b = Bytes(problem.b(), 2),
            .d = {.pitch_bytes = problem.d().width_bytes()}};
  }

  absl::StatusOr<ProductResult> Multiply(Product product,
                                         RequestContext context = {}) {
    Answer<ProductResult> answer;
    engine_->Multiply(std::move(product), 0, std::move(context), answer.done());
    return answer.Wait();
  }

  std::shared_ptr<Tensor> Create(const jit::MatrixLayout& layout) {
    Answer<std::shared_ptr<Tensor>> answer;
    engine_->CreateTensor({.layout = layout, .ttl = absl::Hours(1)}, {},
                          answer.done());
    return answer.Wait().value();
  }

  testing::FakeCache cache_;
  jit::TemplateLibrary templates_ = jit::TemplateLibrary::Embedded();
  std::deque<std::string> bytes_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, MultipliesInlineOperands) {
  auto result = Multiply(OnesTimesTwos());
  ASSERT_TRUE(result.ok()) << result.status();
  const auto d = result->d->bytes();
  ASSERT_EQ(d.size(), 2 * 3 * 4);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(testing::Get(DataType::kF32, d.data(), i), 8);
  }
  EXPECT_EQ(result->execution.device, "host");
  EXPECT_EQ(result->execution.source, KernelSource::kCompiled);
  EXPECT_EQ(result->execution.cubin_key.size(), 64);
}

TEST_F(EngineTest, ASecondProductOfTheShapeAsksNoCache) {
  ASSERT_TRUE(Multiply(OnesTimesTwos()).ok());
  const int gets = cache_.gets();
  auto result = Multiply(OnesTimesTwos());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->execution.source, KernelSource::kLoaded);
  EXPECT_EQ(cache_.gets(), gets);
  EXPECT_EQ(engine_->kernels(0).hits(), 1);
}

TEST_F(EngineTest, ScalarsShareAPlanUnlessTheyAreZeroOrOne) {
  jit::Problem problem = Problem();
  problem.alpha = 2;
  EXPECT_EQ(engine_->kernels(0).Find(problem), nullptr);
  ASSERT_TRUE(Multiply(OnesTimesTwos(problem)).ok());
  problem.alpha = 3;
  EXPECT_NE(engine_->kernels(0).Find(problem), nullptr);
  problem.alpha = 0;
  EXPECT_EQ(engine_->kernels(0).Find(problem), nullptr);
  problem.alpha = 1;
  problem.beta = 1;
  EXPECT_EQ(engine_->kernels(0).Find(problem), nullptr);
  problem.beta = 0;
  problem.b_order = jit::Order::kColumnMajor;
  EXPECT_EQ(engine_->kernels(0).Find(problem), nullptr);
}

// Another kernel of the family serves while the better one compiles, which
// then takes over between requests.
TEST_F(EngineTest, NoRequestWaitsForAKernelThatItCanDoWithout) {
  KernelTable& kernels = engine_->kernels(0);
  jit::Problem large = Problem(4096);
  large.n = large.k = 4096;
  const auto loaded = testing::Prepare(kernels, large);
  ASSERT_TRUE(loaded.ok());
  const std::string key = (*loaded)->kernel->key;
  ASSERT_EQ(kernels.Find(Problem()), nullptr);

  cache_.Hold(true);
  for (int i = 0; i < 2; ++i) {
    const auto substituted = Multiply(OnesTimesTwos());
    ASSERT_TRUE(substituted.ok()) << substituted.status();
    EXPECT_EQ(substituted->execution.cubin_key, key);
    EXPECT_EQ(substituted->execution.source, KernelSource::kLoaded);
  }
  cache_.WaitForGets(2);
  cache_.Hold(false);
  ASSERT_TRUE(Eventually([&] { return kernels.LoadedKeys().size() == 2; }));
  EXPECT_EQ(cache_.gets(), 2) << "one compile for both requests";
  const auto own = Multiply(OnesTimesTwos());
  ASSERT_TRUE(own.ok());
  EXPECT_NE(own->execution.cubin_key, key);
}

TEST_F(EngineTest, ANewShapeOfALoadedKernelWaitsForNoCompile) {
  ASSERT_TRUE(Multiply(OnesTimesTwos()).ok());
  cache_.Hold(true);  // Its own kernel is asked for, and does not come.
  jit::Problem other = Problem();
  other.k = 5;
  const auto result = Multiply(OnesTimesTwos(other));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->execution.source, KernelSource::kLoaded);
  cache_.Hold(false);
}

TEST_F(EngineTest, EvictingAKernelForgetsItsPlans) {
  auto result = Multiply(OnesTimesTwos());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(engine_->kernels(0).LoadedKeys().size(), 1);
  engine_->kernels(0).Evict(result->execution.cubin_key);
  EXPECT_TRUE(engine_->kernels(0).LoadedKeys().empty());
  EXPECT_EQ(engine_->kernels(0).Find(Problem()), nullptr);
  result = Multiply(OnesTimesTwos());
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->execution.source, KernelSource::kMemory);
}

TEST_F(EngineTest, NothingToWriteNeedsNoKernel) {
  auto result = Multiply({.problem = Problem(0)});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->d, nullptr);
  EXPECT_EQ(result->execution.source, KernelSource::kNone);
  EXPECT_EQ(cache_.gets(), 0);
}

TEST_F(EngineTest, OperandsThatAreNotReadAreNotAllocated) {
  // A and B would take more memory than the device has.
  jit::Problem problem = Problem();
  problem.m = 4;
  problem.k = 1 << 20;
  problem.alpha = 0;
  auto result = Multiply({.problem = problem, .d = {.pitch_bytes = 12}});
  ASSERT_TRUE(result.ok()) << result.status();
  for (const char byte : result->d->bytes()) EXPECT_EQ(byte, 0);
}

TEST_F(EngineTest, MemoryThatIsUsedUpIsAnErrorOfTheRequestAlone) {
  jit::Problem problem = Problem();
  problem.m = 1 << 20;
  problem.alpha = 0;
  const auto refused = Multiply({.problem = problem, .d = {.pitch_bytes = 12}});
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Multiply(OnesTimesTwos()).ok());
}

TEST_F(EngineTest, TensorsAreZeroThenWrittenThenRead) {
  const auto d = Create(Problem().d());
  Product product = OnesTimesTwos();
  product.d.tensor = d;
  ASSERT_TRUE(Multiply(product).ok());
  product.problem.beta = 1;  // D += A B, in place.
  product.c.tensor = d;
  ASSERT_TRUE(Multiply(product).ok());

  Answer<TensorPart> download;
  engine_->Download(d, {1, 1}, 12, {}, download.done());
  auto part = download.Wait();
  ASSERT_TRUE(part.ok());
  ASSERT_EQ(part->bytes->bytes().size(), 12);
  EXPECT_EQ(testing::Get(DataType::kF32, part->bytes->bytes().data(), 2), 16);

  const auto zeros = Create(Problem().d());
  Answer<TensorPart> fresh;
  engine_->Download(zeros, {0, 2}, 12, {}, fresh.done());
  part = fresh.Wait();
  for (const char byte : part->bytes->bytes()) EXPECT_EQ(byte, 0);
}

TEST_F(EngineTest, ColdKernelsDoNotHoldUpWarmOnes) {
  ASSERT_TRUE(Multiply(OnesTimesTwos()).ok());
  cache_.Hold(true);
  jit::Problem cold = Problem();
  cold.d_type = cold.c_type = DataType::kBf16;
  Answer<ProductResult> waiting;
  Product product = OnesTimesTwos(cold);
  engine_->Multiply(std::move(product), 0, {}, waiting.done());
  cache_.WaitForGets(2);
  EXPECT_TRUE(Multiply(OnesTimesTwos()).ok());
  EXPECT_FALSE(waiting.there());
  cache_.Hold(false);
  EXPECT_TRUE(waiting.Wait().ok());
}

TEST_F(EngineTest, ACrowdAtTheCompilerIsRefusedAtOnce) {
  cache_.Hold(true);
  std::vector<Answer<ProductResult>> answers(3);
  for (auto& answer : answers) {
    engine_->Multiply(OnesTimesTwos(), 0, {}, answer.done());
  }
  EXPECT_EQ(engine_->waiting(), 3);
  EXPECT_EQ(Multiply(OnesTimesTwos()).status().code(),
            StatusCode::kResourceExhausted);
  cache_.Hold(false);
  for (auto& answer : answers) EXPECT_TRUE(answer.Wait().ok());
}

TEST_F(EngineTest, NobodyWaitsNothingIsDone) {
  EXPECT_EQ(
      Multiply(OnesTimesTwos(), {.deadline = absl::Now()}).status().code(),
      StatusCode::kDeadlineExceeded);
  auto cancelled = std::make_shared<std::atomic<bool>>(true);
  EXPECT_EQ(Multiply(OnesTimesTwos(), {.cancelled = cancelled}).status().code(),
            StatusCode::kCancelled);
  EXPECT_EQ(cache_.gets(), 0);
}

TEST_F(EngineTest, CancelledWhileAnotherCompilesIsNotCompiled) {
  cache_.Hold(true);
  Answer<ProductResult> first, second;
  engine_->Multiply(OnesTimesTwos(), 0, {}, first.done());
  cache_.WaitForGets(1);  // The one thread that compiles is busy.
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  jit::Problem other = Problem();
  other.a_order = jit::Order::kColumnMajor;
  engine_->Multiply(OnesTimesTwos(other), 0, {.cancelled = cancelled},
                    second.done());
  *cancelled = true;
  cache_.Hold(false);
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_EQ(second.Wait().status().code(), StatusCode::kCancelled);
  // Behind it in the line for the compiler.
  jit::Problem last = Problem();
  last.a_type = last.b_type = DataType::kF16;
  EXPECT_TRUE(Multiply(OnesTimesTwos(last)).ok());
  EXPECT_EQ(cache_.gets(), 2);
}

TEST_F(EngineTest, ACompileErrorIsTheRequestsAnswer) {
  cache_.Fail(absl::FailedPreconditionError("no NVRTC"));
  const auto result = Multiply(OnesTimesTwos());
  EXPECT_EQ(result.status().code(), StatusCode::kFailedPrecondition);
  // Its place in the queue is free again.
  EXPECT_EQ(engine_->waiting(), 0);
}

// Nor is it told that it is there.
TEST_F(EngineTest, WhoWantsAKernelPreparedGetsNoSubstitute) {
  ASSERT_TRUE(Multiply(OnesTimesTwos()).ok());
  cache_.Fail(absl::FailedPreconditionError("no NVRTC"));
  jit::Problem other = Problem();
  other.n = 200;
  Answer<Execution> prepared;
  engine_->Prepare(other, 0, {}, prepared.done());
  EXPECT_EQ(prepared.Wait().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Multiply(OnesTimesTwos(other)).ok()) << "there is one";
}

TEST_F(EngineTest, ACubinThatTheDeviceRefusesIsCompiledAgain) {
  cache_.Damage(true);
  EXPECT_EQ(Multiply(OnesTimesTwos()).status().code(),
            StatusCode::kFailedPrecondition);
  // Each of twelve candidates was tried twice, not for ever.
  EXPECT_EQ(cache_.quarantined(), 24);
  cache_.Damage(false);
  cache_.DamageNext();
  jit::Problem other = Problem();
  other.a_order = jit::Order::kColumnMajor;
  EXPECT_TRUE(Multiply(OnesTimesTwos(other)).ok());
  EXPECT_EQ(cache_.quarantined(), 25);
}

TEST_F(EngineTest, KnowsItsDevicesByName) {
  EXPECT_EQ(engine_->ChooseDevice("").value(), 0);
  EXPECT_EQ(engine_->ChooseDevice("host").value(), 0);
  const auto unknown = engine_->ChooseDevice("cuda:0");
  EXPECT_EQ(unknown.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(unknown.status().message(),
            "device is unknown; this daemon has: host");
}

TEST_F(EngineTest, TensorsBeyondTheQuotaAreRefused) {
  Answer<std::shared_ptr<Tensor>> answer;
  engine_->CreateTensor(
      {.layout = {DataType::kF32, jit::Order::kRowMajor, 1024, 1024}}, {},
      answer.done());
  EXPECT_EQ(answer.Wait().status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(engine_->tensors().bytes(), 0);
}

TEST_F(EngineTest, EndsWithWorkInEveryPhase) {
  cache_.Hold(true);
  std::vector<Answer<ProductResult>> answers(3);
  for (auto& answer : answers) {
    engine_->Multiply(OnesTimesTwos(), 0, {}, answer.done());
  }
  cache_.WaitForGets(1);
  cache_.Hold(false);
  engine_.reset();
  for (auto& answer : answers) {
    const absl::Status status = answer.Wait().status();
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kUnavailable)
        << status;
  }
}

}  // namespace
}  // namespace gemmd::engine
