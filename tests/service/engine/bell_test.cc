#include "service/engine/bell.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/service/gate.h"

namespace gemmd::engine {
namespace {

using testing::Eventually;

// Threads that wait for items, which the test makes one by one.
class BellTest : public ::testing::TestWithParam<absl::Duration> {
 protected:
  ~BellTest() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      bell_.RingForAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  void StartThreads(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] { TakeAll(); });
    }
  }
  void Make() {
    std::lock_guard lock(mutex_);
    ++items_;
    bell_.Ring();
  }
  int taken() {
    std::lock_guard lock(mutex_);
    return taken_;
  }

 private:
  void TakeAll() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (items_ > 0) {
        --items_;
        ++taken_;
      } else {
        bell_.Wait(lock);
      }
    }
  }

  std::mutex mutex_;
  Bell bell_{GetParam()};
  int items_ = 0;
  int taken_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

TEST_P(BellTest, NothingWaitsInVain) {
  StartThreads(3);
  for (int i = 1; i <= 2000; ++i) {
    Make();
    if (i % 3 == 0) {
      ASSERT_TRUE(Eventually([&] { return taken() == i; })) << i;
    }
  }
  EXPECT_TRUE(Eventually([&] { return taken() == 2000; }));
}

TEST_P(BellTest, SeveralRingsWakeSeveral) {
  StartThreads(2);
  for (int i = 0; i < 200; ++i) {
    Make();
    Make();
    ASSERT_TRUE(Eventually([&] { return taken() == 2 * (i + 1); })) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Spin, BellTest,
                         ::testing::Values(absl::ZeroDuration(),
                                           absl::Microseconds(20),
                                           absl::Milliseconds(5)));

}  // namespace
}  // namespace gemmd::engine
