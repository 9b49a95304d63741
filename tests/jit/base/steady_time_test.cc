#include "jit/base/steady_time.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>

#include "jit/cache/build_kernel.h"
#include "jit/cache/key_lock.h"
#include "tests/jit/fake_compiler.h"
#include "tests/settable_clock.h"

namespace gemmd::jit {
namespace {

TEST(SteadyTimeTest, AStepOfTheTimeOfDayDoesNotMoveIt) {
  const absl::Time before = SteadyNow();
  EXPECT_LT(absl::AbsDuration(absl::Now() - before), absl::Minutes(1));
  for (const int64_t step : {-3600, 3600}) {
    clock_step_s = step;
    absl::SleepFor(absl::Milliseconds(5));
    EXPECT_GE(SteadyNow() - before, absl::Milliseconds(5)) << step;
    EXPECT_LT(SteadyNow() - before, absl::Minutes(1)) << step;
    clock_step_s = 0;
  }
}

// Set back by an hour, it would wait for an hour.
TEST(SteadyTimeTest, AKernelThatAnotherMakesIsNotWaitedForLonger) {
  const TemporaryDirectory directory;
  const auto control = std::make_shared<FakeCompiler::Control>();
  const Instance instance = {.name = "one", .source = "one"};
  const KeyLock holder(directory.path(),
                       KeyOf(FakeCompiler(control), instance));
  ASSERT_TRUE(holder.held());
  const auto cache = KernelCache::Create(
      {.directory = directory.path(), .lock_timeout = absl::Milliseconds(300)},
      std::make_unique<FakeCompiler>(control));
  auto got = std::async(std::launch::async, [&] {
    return cache->Get(instance, absl::InfiniteFuture());
  });
  absl::SleepFor(absl::Milliseconds(100));
  clock_step_s = -3600;
  EXPECT_EQ(got.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  clock_step_s = 0;
  cache->GiveUp();
  EXPECT_TRUE(got.get().ok());
}

}  // namespace
}  // namespace gemmd::jit
