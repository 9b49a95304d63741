#include "jit/base/steady_time.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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
TEST(SteadyTimeTest, AKeyThatAnotherHoldsIsNotWaitedForLonger) {
  const TemporaryDirectory directory;
  const std::string key = FakeKernel("a").key;
  const KeyLock holder(directory.path(), key, absl::InfiniteFuture());
  ASSERT_TRUE(holder.held());
  std::atomic<bool> give_up = false;
  std::atomic<bool> over = false;
  const absl::Time deadline = SteadyNow() + absl::Milliseconds(300);
  std::thread waiter([&] {
    const KeyLock lock(directory.path(), key, deadline, &give_up);
    over = true;
  });
  absl::SleepFor(absl::Milliseconds(100));
  clock_step_s = -3600;
  for (int i = 0; i < 1000 && !over; ++i)
    absl::SleepFor(absl::Milliseconds(10));
  EXPECT_TRUE(over);
  give_up = true;
  waiter.join();
  clock_step_s = 0;
}

}  // namespace
}  // namespace gemmd::jit
