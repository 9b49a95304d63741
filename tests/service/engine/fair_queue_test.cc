// Who is served when: shares by cost, whatever an identity asks for.
#include "service/engine/fair_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace gemmd::engine {
namespace {

constexpr auto kAllLive = [](const auto&) { return false; };

// Serves `count` items of cost `costs[identity]`, keeping `waiting[identity]`
// of each identity in the queue, and returns what each was served in all.
std::map<std::string, int64_t> Serve(
    const std::map<std::string, int64_t>& costs,
    const std::map<std::string, int>& waiting, int count) {
  FairQueue<std::string> queue;
  for (const auto& [identity, number] : waiting) {
    for (int i = 0; i < number; ++i) {
      queue.Push(identity, costs.at(identity), identity);
    }
  }
  std::map<std::string, int64_t> served;
  for (int i = 0; i < count; ++i) {
    const std::string identity = *queue.Pop(kAllLive);
    served[identity] += costs.at(identity);
    queue.Push(identity, costs.at(identity), identity);
  }
  return served;
}

TEST(FairQueueTest, WhatIsNotTakenStaysAndKeepsItsIdentityInOrder) {
  const auto is_even = [](int item) { return item % 2 == 0; };
  FairQueue<int> queue;
  queue.Push("a", 1, 1);
  queue.Push("a", 1, 2);
  queue.Push("b", 1, 4);
  EXPECT_EQ(queue.Pop(kAllLive, is_even), 4);
  EXPECT_EQ(queue.Pop(kAllLive, is_even), std::nullopt);
  EXPECT_EQ(queue.size(), 2);
  EXPECT_EQ(queue.Pop(kAllLive), 1);
  EXPECT_EQ(queue.Pop(kAllLive, is_even), 2);
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueueTest, WhatIsDeadIsDroppedBeforeTheNextIsTaken) {
  const auto is_even = [](int item) { return item % 2 == 0; };
  FairQueue<int> queue;
  queue.Push("a", 1, 2);
  queue.Push("a", 1, 1);
  queue.Push("b", 1, 4);
  const auto is_two = [](int item) { return item == 2; };
  EXPECT_EQ(queue.Pop(is_two, is_even), 4);
  EXPECT_EQ(queue.size(), 1);
}

TEST(FairQueueTest, OneIdentityIsServedInOrder) {
  FairQueue<int> queue;
  for (int i = 0; i < 10; ++i) queue.Push("a", 10 - i, i);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(queue.Pop(kAllLive), i);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.Pop(kAllLive), std::nullopt);
}

TEST(FairQueueTest, AFloodGetsNoMoreThanItsShare) {
  const auto served = Serve({{"flood", 100}, {"modest", 100}},
                            {{"flood", 1000}, {"modest", 2}}, 1000);
  EXPECT_NEAR(served.at("flood"), 50000, 100);
  EXPECT_NEAR(served.at("modest"), 50000, 100);
}

TEST(FairQueueTest, SharesAreOfCostNotOfNumber) {
  const auto served =
      Serve({{"large", 10000}, {"small", 10}, {"middle", 300}},
            {{"large", 50}, {"small", 50}, {"middle", 50}}, 100000);
  const int64_t all =
      served.at("large") + served.at("small") + served.at("middle");
  for (const auto& [identity, cost] : served) {
    EXPECT_NEAR(cost, all / 3, 0.03 * all) << identity;
  }
}

TEST(FairQueueTest, WhoComesBackHasSavedNothingUp) {
  FairQueue<std::string> queue;
  for (int i = 0; i < 100; ++i) queue.Push("busy", 10, "busy");
  for (int i = 0; i < 50; ++i) queue.Pop(kAllLive);
  for (int i = 0; i < 20; ++i) queue.Push("late", 10, "late");
  int late = 0;
  for (int i = 0; i < 20; ++i) late += *queue.Pop(kAllLive) == "late";
  EXPECT_NEAR(late, 10, 1);
}

// A share cannot be had twice by leaving between requests.
TEST(FairQueueTest, WhoAsksOneByOneIsChargedAllTheSame) {
  FairQueue<std::string> queue;
  for (int i = 0; i < 1000; ++i) queue.Push("flood", 10, "flood");
  queue.Push("large", 100, "large");
  std::map<std::string, int> cost;
  for (int i = 0; i < 500; ++i) {
    const std::string identity = *queue.Pop(kAllLive);
    cost[identity] += identity == "flood" ? 10 : 100;
    // It comes back only after another one has been served.
    if (identity == "large") {
      cost["flood"] += 10;
      EXPECT_EQ(queue.Pop(kAllLive), "flood");
      queue.Push("large", 100, "large");
    }
  }
  EXPECT_NEAR(cost["large"], cost["flood"], 0.1 * cost["flood"]);
}

TEST(FairQueueTest, WhatIsDeadIsDroppedAndChargedToNobody) {
  FairQueue<int> queue;
  for (int i = 0; i < 10; ++i) queue.Push("a", 1000, i);
  queue.Push("b", 1000, 100);
  queue.Push("b", 1000, 101);
  // Of a, only 8 and 9 live.
  const auto dead = [](int item) { return item < 8; };
  EXPECT_EQ(queue.Pop(dead), 8) << "as if the others had never been";
  EXPECT_EQ(queue.Pop(dead), 100);
  EXPECT_EQ(queue.Pop(dead), 9);
  EXPECT_EQ(queue.Pop(dead), 101);
  EXPECT_EQ(queue.Pop(dead), std::nullopt);
  EXPECT_EQ(queue.size(), 0);
}

TEST(FairQueueTest, TakesOutWhatIsDead) {
  FairQueue<int> queue;
  for (int i = 0; i < 10; ++i) queue.Push(i % 2 == 0 ? "even" : "odd", 1, i);
  EXPECT_EQ(queue.RemoveIf([](int item) { return item % 2 == 0; }).size(), 5);
  EXPECT_EQ(queue.size(), 5);
  for (int i = 1; i < 10; i += 2) EXPECT_EQ(queue.Pop(kAllLive), i);
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueueTest, WorkWithoutCostTakesTurnsToo) {
  FairQueue<std::string> queue;
  for (int i = 0; i < 100; ++i) queue.Push("flood", 0, "flood");
  queue.Push("modest", 0, "modest");
  int before = 0;
  while (*queue.Pop(kAllLive) != "modest") ++before;
  EXPECT_LE(before, 1);
}

}  // namespace
}  // namespace gemmd::engine
