#include "service/gpu/copy_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/few_threads.h"

namespace gemmd::gpu {
namespace {

TEST(CopyThreadsTest, HalfTheCoresCopyAtMostAndFiveOfThem) {
  EXPECT_EQ(CopyThreads::CountFor(0), 0) << "unknown";
  EXPECT_EQ(CopyThreads::CountFor(1), 0);
  EXPECT_EQ(CopyThreads::CountFor(2), 0);
  EXPECT_EQ(CopyThreads::CountFor(3), 0);
  EXPECT_EQ(CopyThreads::CountFor(4), 1);
  EXPECT_EQ(CopyThreads::CountFor(8), 3);
  EXPECT_EQ(CopyThreads::CountFor(10), 4);
  EXPECT_EQ(CopyThreads::CountFor(192), 4);
}

// Work that is done when `count` threads are in it: it needs that many.
class Meeting {
 public:
  explicit Meeting(int count) : missing_(count) {}

  void Come() {
    if (--missing_ == 0) met_.Notify();
    EXPECT_TRUE(met_.WaitForNotificationWithTimeout(absl::Seconds(30)));
  }

 private:
  std::atomic<int> missing_;
  absl::Notification met_;
};

TEST(CopyThreadsTest, AllThatAreIdleHelp) {
  CopyThreads threads(3);
  for (int i = 0; i < 100; ++i) {
    Meeting all(4);
    std::atomic<bool> here = false;
    const std::thread::id caller = std::this_thread::get_id();
    threads.Share([&] {
      if (std::this_thread::get_id() == caller) here = true;
      all.Come();
    });
    EXPECT_TRUE(here);
  }
}

TEST(CopyThreadsTest, WithoutThreadsTheCallerWorksAlone) {
  for (const int count : {-1, 0}) {
    CopyThreads threads(count);
    int calls = 0;
    threads.Share([&] { ++calls; });
    EXPECT_EQ(calls, 1);
  }
}

// Who comes second is done before the first one is.
TEST(CopyThreadsTest, NobodyWaitsForThreadsThatHelpOthers) {
  CopyThreads threads(1);
  absl::Notification end;
  absl::BlockingCounter begun(2);
  std::thread first([&] {
    threads.Share([&] {
      begun.DecrementCount();
      EXPECT_TRUE(end.WaitForNotificationWithTimeout(absl::Seconds(30)));
    });
  });
  begun.Wait();
  int calls = 0;  // No thread but this one's: a sanitizer would see it.
  for (int i = 0; i < 3; ++i) threads.Share([&] { ++calls; });
  EXPECT_EQ(calls, 3);
  end.Notify();
  first.join();
  Meeting both(2);
  threads.Share([&] { both.Come(); });
}

TEST(CopyThreadsTest, AThreadHelpsOnceWithACall) {
  CopyThreads threads(2);
  for (int i = 0; i < 1000; ++i) {
    std::atomic<int> calls = 0;
    threads.Share([&] { ++calls; });
    EXPECT_GE(calls, 1);
    EXPECT_LE(calls, 3);
  }
}

// Work is mostly done before a thread has woken for it.
TEST(CopyThreadsTest, WhoWakesLateFindsNoWork) {
  CopyThreads threads(3);
  std::atomic<bool> ended = false;
  std::atomic<int> late = 0;
  for (int i = 0; i < 50; ++i) {
    ended = false;
    threads.Share([&] { late += ended; });
    ended = true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(late, 0);
}

// What work has on the stack is gone, and another call's there.
TEST(CopyThreadsTest, WorkHasEndedEverywhereWhenTheCallReturns) {
  CopyThreads threads(3);
  const auto share_often = [&] {
    for (int i = 0; i < 500; ++i) {
      constexpr int kParts = 20;
      std::atomic<int> next = 0;
      int parts[kParts] = {};
      threads.Share([&] {
        for (int part; (part = next++) < kParts;) {
          std::this_thread::yield();
          ++parts[part];
        }
      });
      for (int& part : parts) {
        EXPECT_EQ(part, 1);
        part = 100;  // Who is late finds it.
      }
    }
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) callers.emplace_back(share_often);
  for (std::thread& caller : callers) caller.join();
}

TEST(CopyThreadsTest, EndsWheneverNobodyShares) {
  for (int i = 0; i < 100; ++i) {
    CopyThreads threads(i % 4);
    for (int call = 0; call < i % 3; ++call) threads.Share([] {});
  }
}

TEST(CopyThreadsTest, FewerHelpWhereTheSystemGivesFewer) {
  if (!testing::FewThreads::kPossible) {
    GTEST_SKIP() << "a sanitizer's own memory leaves no room for a limit";
  }
  std::unique_ptr<CopyThreads> threads;
  {
    const testing::FewThreads few;
    threads = std::make_unique<CopyThreads>(1000);
  }
  Meeting two(2);
  std::atomic<int> calls = 0;
  threads->Share([&] {
    if (calls++ < 2) two.Come();
  });
  EXPECT_LT(calls, 1001);
}

}  // namespace
}  // namespace gemmd::gpu
