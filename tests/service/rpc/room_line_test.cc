#include "service/rpc/room_line.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "jit/base/steady_time.h"
#include "service/rpc/async.h"
#include "tests/service/rpc/test_loop.h"

namespace gemmd::rpc {
namespace {

bool WaitsForOthers() { return false; }
bool WaitsForItself() { return true; }

TEST(RoomLineTest, TheOldestIsFirstUntilItLeaves) {
  RoomLine line;
  std::optional<RoomLine::Place> first;
  first.emplace(line, WaitsForOthers);
  RoomLine::Place second(line, WaitsForOthers);
  EXPECT_TRUE(first->is_first());
  EXPECT_FALSE(second.is_first());
  first->LetPass();
  EXPECT_TRUE(first->is_first());
  first.reset();
  EXPECT_TRUE(second.is_first());
}

TEST(RoomLineTest, WhoWaitForThemselvesStepBackWhereTheyWouldBeFirst) {
  RoomLine line;
  bool itself = true;
  RoomLine::Place first(line, WaitsForItself);
  RoomLine::Place second(line, [&] { return itself; });
  std::optional<RoomLine::Place> third;
  third.emplace(line, WaitsForOthers);
  RoomLine::Place fourth(line, WaitsForItself);
  RoomLine::Place fifth(line, WaitsForOthers);
  second.LetPass();
  EXPECT_TRUE(first.is_first()) << "only the first one lets others pass";
  first.LetPass();
  EXPECT_TRUE(third->is_first());
  third.reset();
  EXPECT_TRUE(fourth.is_first());
  fourth.LetPass();
  EXPECT_TRUE(fifth.is_first());
  itself = false;
  fifth.LetPass();
  EXPECT_TRUE(fifth.is_first());
}

TEST(RoomLineTest, OfThoseWhoAllWaitForThemselvesTheFirstStaysIt) {
  RoomLine line;
  RoomLine::Place first(line, WaitsForItself);
  first.LetPass();
  EXPECT_TRUE(first.is_first());
  RoomLine::Place second(line, WaitsForItself);
  RoomLine::Place third(line, WaitsForItself);
  first.LetPass();
  EXPECT_TRUE(first.is_first());
}

// However many stand behind him.
TEST(RoomLineTest, ALookOfTheFirstOneAsksNobodyElse) {
  RoomLine line;
  int asked = 0;
  RoomLine::Place first(line, WaitsForOthers);
  std::list<RoomLine::Place> others;
  for (int i = 0; i < 100; ++i) {
    others.emplace_back(line, [&] {
      ++asked;
      return true;
    });
  }
  first.LetPass();
  for (RoomLine::Place& other : others) other.LetPass();
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(first.is_first());
}

// Those in a line, on a loop.
class RoomLineWaitTest : public ::testing::Test {
 protected:
  struct Waiter {
    std::function<bool()> waits_for_itself;
    std::atomic<int> looks = 0;
    std::atomic<bool> leaves = false;  // At its next look.
    std::promise<void> left;
  };

  Waiter& Add(std::function<bool()> waits_for_itself = WaitsForOthers) {
    Waiter& waiter = waiters_.emplace_back();
    waiter.waits_for_itself = std::move(waits_for_itself);
    loop_.Post([this, &waiter] { Run(waiter); });
    EXPECT_TRUE(Becomes([&] { return waiter.looks > 0; }));
    return waiter;
  }
  ~RoomLineWaitTest() override {
    for (Waiter& waiter : waiters_) waiter.leaves = true;
    for (Waiter& waiter : waiters_) {
      EXPECT_EQ(waiter.left.get_future().wait_for(kPatience),
                std::future_status::ready);
    }
  }

  template <typename Condition>
  static bool Becomes(const Condition& condition) {
    const absl::Time end = absl::Now() + absl::FromChrono(kPatience);
    while (!condition()) {
      if (absl::Now() > end) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }

 private:
  Task Run(Waiter& waiter) {
    {
      RoomLine::Place place(line_, waiter.waits_for_itself);
      while (!waiter.leaves) {
        if (place.is_first()) place.LetPass();
        ++waiter.looks;
        RoomLine::Wait wait(place, loop_.loop(),
                            jit::SteadyNow() + absl::Hours(1));
        co_await wait;
      }
    }
    waiter.left.set_value();
  }

  RoomLine line_;
  std::list<Waiter> waiters_;
  TestLoop loop_;
};

TEST_F(RoomLineWaitTest, OnlyTheFirstOneLooksAgain) {
  Waiter& first = Add();
  std::vector<Waiter*> others;
  for (int i = 0; i < 20; ++i) others.push_back(&Add());
  const int before = first.looks;
  EXPECT_TRUE(Becomes([&] { return first.looks > before + 10; }));
  for (const Waiter* other : others) EXPECT_EQ(other->looks, 1);
  first.leaves = true;
  EXPECT_TRUE(Becomes([&] { return others[0]->looks > 10; }));
  EXPECT_EQ(others[1]->looks, 1);
}

TEST_F(RoomLineWaitTest, WhoIsLetPassIsWoken) {
  Waiter& first = Add(WaitsForItself);
  Waiter& second = Add(WaitsForItself);
  EXPECT_TRUE(Becomes([&] { return first.looks > 10; }));
  EXPECT_EQ(second.looks, 1);
  Waiter& third = Add();
  EXPECT_TRUE(Becomes([&] { return third.looks > 10; }));
  EXPECT_EQ(second.looks, 1);
  third.leaves = true;
  const int before = first.looks;
  EXPECT_TRUE(Becomes([&] { return first.looks > before + 10; }));
}

}  // namespace
}  // namespace gemmd::rpc
