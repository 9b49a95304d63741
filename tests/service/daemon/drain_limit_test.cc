#include "service/daemon/drain_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/few_threads.h"

namespace gemmd::daemon {
namespace {

constexpr int kExitCode = 3;

void OutlastLimit() {
  DrainLimit limit;
  limit.Start(absl::Milliseconds(10), kExitCode);
  absl::SleepFor(absl::Minutes(1));
}

// What asks for threads has got them all when the limit begins.
void OutlastLimitWithoutThreads() {
  DrainLimit limit;
  const testing::FewThreads few;
  absl::Notification never;
  std::vector<std::thread> threads;
  try {
    while (true) {
      threads.emplace_back([&never] { never.WaitForNotification(); });
    }
  } catch (const std::system_error&) {
  }
  limit.Start(absl::Milliseconds(10), kExitCode);
  never.WaitForNotification();
}

void StopInTime() {
  {
    DrainLimit limit;
    limit.Start(absl::Minutes(1), kExitCode);
  }
  { const DrainLimit limit; }
  _exit(0);
}

// Each in a program of its own: a fork of one that has had threads may have none.
class DrainLimitDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

TEST_F(DrainLimitDeathTest, EndsTheProcess) {
  EXPECT_EXIT(OutlastLimit(), ::testing::ExitedWithCode(kExitCode), "");
}

TEST_F(DrainLimitDeathTest, EndsItWhereTheSystemGivesNoThreads) {
  if (!testing::FewThreads::kPossible) {
    GTEST_SKIP() << "a sanitizer's own memory leaves no room for a limit";
  }
  EXPECT_EXIT(OutlastLimitWithoutThreads(),
              ::testing::ExitedWithCode(kExitCode), "");
}

TEST_F(DrainLimitDeathTest, NotWhatStopsInTime) {
  EXPECT_EXIT(StopInTime(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace gemmd::daemon
