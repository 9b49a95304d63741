#include "jit/base/task_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "jit/base/steady_time.h"
#include "tests/few_threads.h"

namespace gemmd::jit {
namespace {

TEST(TaskQueueTest, WithoutItsThreadsItIsNotMadeAndNothingElseHappens) {
  if (!testing::FewThreads::kPossible) {
    GTEST_SKIP() << "a sanitizer's own memory leaves no room for a limit";
  }
  const testing::FewThreads few;
  EXPECT_THROW(TaskQueue(1000), std::system_error);
}

TEST(TaskQueueTest, TasksRunInTheirOrder) {
  std::vector<int> ran;
  std::promise<void> begin, end;
  TaskQueue queue(1);
  queue.Schedule([&] { begin.get_future().wait(); });
  for (int i = 0; i < 3; ++i) queue.Schedule([&ran, i] { ran.push_back(i); });
  queue.Schedule([&] { end.set_value(); });
  begin.set_value();
  end.get_future().wait();
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2}));
}

// Though another is due long after it.
TEST(TaskQueueTest, ADelayedTaskRunsWhenItIsDue) {
  constexpr absl::Duration kDelay = absl::Milliseconds(50);
  std::promise<void> ran;
  TaskQueue queue(1);
  absl::SleepFor(kDelay);  // Its thread waits for anything.
  queue.ScheduleAfter(absl::Hours(1), [] {});
  const absl::Time start = SteadyNow();
  queue.ScheduleAfter(kDelay, [&] { ran.set_value(); });
  ASSERT_EQ(ran.get_future().wait_for(std::chrono::seconds(60)),
            std::future_status::ready);
  EXPECT_GE(SteadyNow() - start, kDelay);
}

// They may hold what others wait for.
TEST(TaskQueueTest, WhatWaitsAtTheEndIsDestroyedAndNotRun) {
  const auto held = std::make_shared<int>();
  bool ran = false;
  {
    std::promise<void> running, go;
    TaskQueue queue(1);
    queue.Schedule([&] {
      running.set_value();
      go.get_future().wait_for(std::chrono::seconds(1));
    });
    running.get_future().wait();
    queue.Schedule([held, &ran] { ran = true; });
    queue.ScheduleAfter(absl::Hours(1), [held, &ran] { ran = true; });
  }
  EXPECT_FALSE(ran);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace gemmd::jit
