// In which order a pool works.
#include "service/engine/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <system_error>

#include "tests/few_threads.h"
#include "tests/service/gate.h"

namespace gemmd::engine {
namespace {

TEST(ThreadPoolTest, WorkBehindWaitsForAllOther) {
  testing::Gate gate;
  gate.Close();
  std::mutex mutex;
  std::string order;
  ThreadPool pool(1);
  const auto note = [&](char name) {
    return [&, name] {
      std::lock_guard lock(mutex);
      order += name;
    };
  };
  pool.Submit("x", [&] { gate.Pass(); });
  ASSERT_TRUE(gate.WaitForArrivals(1));
  pool.SubmitBehind(note('b'));
  pool.Submit("x", note('x'));
  pool.Submit("y", note('y'));
  pool.Submit("x", note('x'));
  gate.Open();
  EXPECT_TRUE(testing::Eventually([&] {
    std::lock_guard lock(mutex);
    return order.size() == 4;
  }));
  EXPECT_EQ(order.back(), 'b');
}

TEST(ThreadPoolTest, WorkBehindLeavesAThreadFree) {
  testing::Gate gate;
  gate.Close();
  std::atomic<bool> done = false;
  ThreadPool pool(3);
  for (int i = 0; i < 5; ++i) pool.SubmitBehind([&] { gate.Pass(); });
  ASSERT_TRUE(gate.WaitForArrivals(2));
  pool.Submit("x", [&] { done = true; });
  EXPECT_TRUE(testing::Eventually([&] { return done.load(); }));
  EXPECT_EQ(gate.arrived(), 2);
  gate.Open();
  EXPECT_TRUE(gate.WaitForArrivals(5));
}

TEST(ThreadPoolTest, WhereOneOfEachRunsAtATimeNobodyHoldsUpOthers) {
  testing::Gate gate;
  gate.Close();
  std::atomic<int> of_x = 0;
  std::atomic<bool> of_y = false;
  ThreadPool pool(2, ThreadPool::OfAnIdentity::kOneAtATime);
  for (int i = 0; i < 5; ++i) {
    pool.Submit("x", [&] {
      gate.Pass();
      ++of_x;
    });
  }
  ASSERT_TRUE(gate.WaitForArrivals(1));
  pool.Submit("y", [&] { of_y = true; });
  EXPECT_TRUE(testing::Eventually([&] { return of_y.load(); }));
  EXPECT_EQ(gate.arrived(), 1);
  gate.Open();
  pool.Stop();
  EXPECT_EQ(of_x, 5);
}

TEST(ThreadPoolTest, StoppingRunsWhatWasSubmittedAndDropsWhatIsBehind) {
  testing::Gate gate;
  gate.Close();
  std::atomic<int> ran = 0;
  std::atomic<bool> behind = false;
  const auto dropped = std::make_shared<int>();
  ThreadPool pool(1);
  pool.Submit("x", [&] { gate.Pass(); });
  ASSERT_TRUE(gate.WaitForArrivals(1));
  pool.Submit("x", [&] { ++ran; });
  pool.SubmitBehind([&behind, dropped] { behind = true; });
  std::thread stop([&] { pool.Stop(); });
  EXPECT_TRUE(testing::Eventually([&] { return dropped.use_count() == 1; }));
  gate.Open();
  stop.join();
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(behind);
}

TEST(ThreadPoolTest, WithoutItsThreadsItIsNotMadeAndNothingElseHappens) {
  if (!testing::FewThreads::kPossible) {
    GTEST_SKIP() << "a sanitizer's own memory leaves no room for a limit";
  }
  const testing::FewThreads few;
  EXPECT_THROW(ThreadPool(1000), std::system_error);
}

}  // namespace
}  // namespace gemmd::engine
