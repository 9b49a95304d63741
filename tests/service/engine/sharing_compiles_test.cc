// Nobody waits for compiles but who needs their kernels, and he not for
// others'.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/plan/planner.h"
#include "tests/service/sharing_fixture.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using testing::From;
using testing::TestEngine;

class SharingTest : public testing::SharingFixture {
 protected:
  // A product of the i-th of sixteen families that have no loaded kernel.
  static Product Cold(int i = 0) {
    Product product = TestEngine::Zeros();
    jit::Problem& problem = product.problem;
    const jit::DataType types[] = {jit::DataType::kBf16, jit::DataType::kF16};
    problem.a_type = problem.b_type = types[i % 2];
    problem.c_type = problem.d_type = types[i / 2 % 2];
    problem.a_order = static_cast<jit::Order>(i / 4 % 2);
    problem.b_order = static_cast<jit::Order>(i / 8 % 2);
    product.d.pitch_bytes = problem.d().width_bytes();
    return product;
  }
  static std::string KernelOf(const Product& product) {
    const jit::Plan best = jit::ChoosePlan(product.problem, {});
    return jit::KernelName(best.family, best.config);
  }
};

TEST_F(SharingTest, CompilesDoNotHoldUpControlCalls) {
  Start({.preparer = {.lookup_threads = 1, .compile_threads = 1}});
  engine().cache().Hold(true);
  auto cold = engine().Multiply(Cold());
  engine().cache().WaitForGets(2);
  testing::Answer<int> looked;
  engine()->InBackground<int>(
      "", [] { return absl::StatusOr<int>(7); }, looked.done());
  EXPECT_EQ(looked.Wait().value(), 7);
  EXPECT_TRUE(engine().Create({}).Wait().ok());
  EXPECT_FALSE(cold.there());
  engine().cache().Hold(false);
  EXPECT_TRUE(cold.Wait().ok());
}

// The kernel was compiled once and is found on disk, say; all threads that
// compile are busy.
TEST_F(SharingTest, CompilesDoNotHoldUpWhatTheCacheHas) {
  Start({.preparer = {.lookup_threads = 1, .compile_threads = 1}});
  const auto first = engine().Multiply(Cold(1)).Wait();
  ASSERT_TRUE(first.ok());
  engine()->kernels(0).Evict(first->execution.cubin_key);
  engine().cache().Hold(true);
  const int gets = engine().cache().gets();
  auto cold = engine().Multiply(Cold(0));
  engine().cache().WaitForGets(gets + 1);
  const auto found = engine().Multiply(Cold(1)).Wait();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->execution.source, KernelSource::kMemory);
  EXPECT_FALSE(cold.there());
  engine().cache().Hold(false);
  EXPECT_TRUE(cold.Wait().ok());
}

// A lane that waited would look like a device that hangs.
TEST_F(SharingTest, NoLaneWaitsForTheCompileOfAForm) {
  hooks_->derives_forms = true;
  hooks_->multiply = nullptr;
  Start({.executor = {.lanes = 1}});
  const auto bytes_times_bytes = [&](jit::Order b_order) {
    Product product;
    product.problem = {.m = 16, .n = 16, .k = 16};
    jit::Problem& problem = product.problem;
    problem.a_type = problem.b_type = jit::DataType::kS8;
    problem.c_type = problem.d_type = jit::DataType::kS32;
    problem.b_order = b_order;
    product.a.tensor = engine().Create({.layout = problem.a()}).Wait().value();
    product.b.tensor = engine().Create({.layout = problem.b()}).Wait().value();
    product.d.pitch_bytes = problem.d().width_bytes();
    return engine().Multiply(std::move(product));
  };
  ASSERT_TRUE(bytes_times_bytes(jit::Order::kColumnMajor).Wait().ok());
  const int gets = engine().cache().gets();
  engine().cache().Hold(true);
  // The same kernel, but B is to be transposed first.
  auto derives = bytes_times_bytes(jit::Order::kRowMajor);
  engine().cache().WaitForGets(gets + 1);
  EXPECT_TRUE(bytes_times_bytes(jit::Order::kColumnMajor).Wait().ok());
  EXPECT_FALSE(derives.there());
  engine().cache().Hold(false);
  EXPECT_TRUE(derives.Wait().ok());
  EXPECT_EQ(engine().cache().gets(), gets + 1);
}

TEST_F(SharingTest, RequestsWithoutAKernelHoldNoPlaceOfTheDevice) {
  Start({.executor = {.lanes = 1, .max_queue = 1},
         .preparer = {.max_waiting = 4}});
  engine().cache().Hold(true);
  std::vector<TestEngine::MultiplyAnswer> cold;
  for (int i = 0; i < 4; ++i) cold.push_back(engine().Multiply(Cold()));
  engine().cache().WaitForGets(2);
  EXPECT_TRUE(engine().Multiply(TestEngine::Zeros()).Wait().ok());
  EXPECT_EQ(engine().Multiply(Cold()).Wait().status().code(),
            StatusCode::kResourceExhausted);
  // They were admitted once: the small queue refuses none of them.
  engine().cache().Hold(false);
  for (auto& answer : cold) EXPECT_TRUE(answer.Wait().ok());
}

TEST_F(SharingTest, WhoGivesUpWaitingForACompileLeavesAtOnce) {
  Start();
  engine().cache().Hold(true);
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  auto gone = engine().Multiply(Cold(), 0, {.cancelled = cancelled});
  auto late = engine().Multiply(
      Cold(), 0, {.deadline = absl::Now() + absl::Milliseconds(5)});
  engine().cache().WaitForGets(2);
  *cancelled = true;
  EXPECT_EQ(gone.Wait().status().code(), StatusCode::kCancelled);
  EXPECT_EQ(late.Wait().status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(engine()->waiting(), 0);
  engine().cache().Hold(false);
}

TEST_F(SharingTest, OneOfSixteenIsToldThatItsKernelWasCompiled) {
  Start({.preparer = {.lookup_threads = 4, .compile_threads = 4}});
  const int gets = engine().cache().gets();
  engine().cache().Hold(true);
  std::vector<TestEngine::MultiplyAnswer> answers;
  for (int i = 0; i < 16; ++i) {
    answers.push_back(
        engine().Multiply(Cold(), 0, From(absl::StrCat("client ", i))));
  }
  engine().cache().WaitForGets(gets + 1);
  absl::SleepFor(absl::Milliseconds(20));  // For others to ask the cache, too.
  engine().cache().Hold(false);
  int compiled = 0;
  for (auto& answer : answers) {
    const auto result = answer.Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    compiled += result->execution.source == KernelSource::kCompiled;
  }
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(engine().cache().gets(), gets + 1);
}

// A flood of kernels that nobody has; the modest client's is among the next.
TEST_F(SharingTest, AFloodOfCompilesDoesNotHoldUpAnother) {
  Start({.preparer = {.lookup_threads = 1, .compile_threads = 1}});
  engine().cache().Hold(true);
  const int gets = engine().cache().gets();
  auto running = engine().Multiply(Cold(0), 0, From("flood"));
  engine().cache().WaitForGets(gets + 1);
  const int lookups = engine().cache().lookups();
  std::vector<TestEngine::MultiplyAnswer> flood;
  for (int i = 2; i < 14; ++i) {
    flood.push_back(engine().Multiply(Cold(i), 0, From("flood")));
  }
  auto modest = engine().Multiply(Cold(1), 0, From("modest"));
  // One thread looks up: with this last one, all others wait for the compiler.
  flood.push_back(engine().Multiply(Cold(14), 0, From("flood")));
  engine().cache().WaitForLookups(lookups + 14);
  // The one that runs, the flood's next, and then the modest client's.
  engine().cache().HoldAfter(3);
  EXPECT_TRUE(modest.Wait().ok());
  engine().cache().Hold(false);
  EXPECT_TRUE(running.Wait().ok());
  for (auto& answer : flood) EXPECT_TRUE(answer.Wait().ok());
}

// A process that was stopped may hold the locks of any number of kernels.
TEST_F(SharingTest, KernelsThatOtherProcessesMakeHoldUpNoOthers) {
  Start({.preparer = {.lookup_threads = 1, .compile_threads = 1}});
  engine().cache().SetElsewhere({KernelOf(Cold(0)), KernelOf(Cold(1))});
  const int gets = engine().cache().gets();
  std::vector<TestEngine::MultiplyAnswer> locked;
  for (const int i : {0, 1, 0}) locked.push_back(engine().Multiply(Cold(i)));
  engine().cache().WaitForGets(gets + 4);  // Of two more than once.
  EXPECT_TRUE(engine().Multiply(Cold(2)).Wait().ok());
  for (auto& answer : locked) EXPECT_FALSE(answer.there());
  // One who comes later, and another who does not stay.
  locked.push_back(engine().Multiply(Cold(1), 0, From("another")));
  auto late = engine().Multiply(
      Cold(0), 0, {.deadline = absl::Now() + absl::Milliseconds(5)});
  EXPECT_EQ(late.Wait().status().code(), StatusCode::kDeadlineExceeded);
  engine().cache().SetElsewhere({});
  for (auto& answer : locked) EXPECT_TRUE(answer.Wait().ok());
}

// Its requests end with it.
TEST_F(SharingTest, TheEndDoesNotWaitForOtherProcesses) {
  Start();
  engine().cache().SetElsewhere({KernelOf(Cold())});
  const int gets = engine().cache().gets();
  auto cold = engine().Multiply(Cold());
  engine().cache().WaitForGets(gets + 2);
  engine_.reset();
  EXPECT_EQ(cold.Wait().status().code(), StatusCode::kUnavailable);
}

TEST_F(SharingTest, AKernelThatIsRefusedFailsNoRequest) {
  Start();
  const Product product = Cold();
  engine().cache().Reject(KernelOf(product));
  const auto result = engine().Multiply(product).Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NE(result->execution.kernel, KernelOf(product));
}

}  // namespace
}  // namespace gemmd::engine
