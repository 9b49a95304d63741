// Plans of groups that are remembered are those that would be made anew.
#include "service/engine/group_planner.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "jit/plan/group_launches.h"

namespace gemmd::engine {
namespace {

using Group = std::vector<jit::Problem>;

bool All(const jit::GroupPlan&) { return true; }

Group Of(const std::vector<int64_t>& rows) {
  Group group;
  for (const int64_t m : rows) {
    group.push_back({.m = m, .n = 2048, .k = 7168});
  }
  return group;
}

void ExpectSame(const std::optional<jit::GroupPlan>& actual,
                const std::optional<jit::GroupPlan>& expected) {
  ASSERT_EQ(actual.has_value(), expected.has_value());
  if (!expected) return;
  EXPECT_EQ(actual->family, expected->family);
  EXPECT_EQ(actual->config, expected->config);
  EXPECT_EQ(actual->predicted_cycles, expected->predicted_cycles);
}

TEST(GroupPlannerTest, ChoosesWhatThePlannerDoes) {
  std::mt19937 random(1);
  const auto roll = [&](int64_t most) {
    return 1 + static_cast<int64_t>(random() % most);
  };
  GroupPlanner planner;
  int apart = 0;
  for (int i = 0; i < 60; ++i) {
    Group group(2 + random() % 12);
    const bool column = random() % 2 == 0;
    const bool long_k = random() % 4 == 0;
    for (jit::Problem& problem : group) {
      problem = {.m = roll(300), .n = roll(20) * 64, .k = roll(30) * 32};
      if (long_k) problem.m = problem.n = 8, problem.k = 100'000;
      if (random() % 4 == 0) problem.batch = roll(3);
      if (random() % 4 == 0) problem.b_broadcast = true;
      if (column) problem.a_order = jit::Order::kColumnMajor;
    }
    const auto expected = jit::ChooseGroupPlan(group, {}, All);
    apart += !expected;
    ExpectSame(planner.Choose(group, {}, All), expected);
    ExpectSame(planner.Choose(group, {}, All), expected);
  }
  EXPECT_GT(apart, 0);
  EXPECT_LT(apart, 30);
}

// With what it is told of another device it shows what it makes anew.
constexpr jit::DeviceProperties kTiny = {.multiprocessors = 1,
                                         .shared_memory_bytes = 60'000};
constexpr jit::DeviceProperties kSmall = {.shared_memory_bytes = 60'000};

TEST(GroupPlannerTest, AGroupThatComesAgainIsNotPlanned) {
  GroupPlanner planner;
  const Group group = Of({13, 1, 7});
  const auto first = planner.Choose(group, {}, All);
  ASSERT_TRUE(first);
  ExpectSame(planner.Choose(group, kTiny, All), first);
  // Nor is one that goes apart.
  const Group apart(2, {.m = 8, .n = 8, .k = 100'000});
  EXPECT_FALSE(planner.Choose(apart, {}, All));
  EXPECT_FALSE(planner.Choose(apart, kTiny, All));
  EXPECT_TRUE(GroupPlanner().Choose(apart, kTiny, All));
}

TEST(GroupPlannerTest, ProductsAndFamiliesThatComeAgainAreNotPlanned) {
  GroupPlanner planner;
  planner.Choose(Of({13, 1, 7}), {}, All);
  const Group mixed = Of({7, 13});
  ExpectSame(planner.Choose(mixed, kSmall, All),
             jit::ChooseGroupPlan(mixed, {}, All));
  const auto small = GroupPlanner().Choose(mixed, kSmall, All);
  ASSERT_TRUE(small);
  EXPECT_NE(small->config, jit::ChooseGroupPlan(mixed, {}, All)->config);

  // What each would take alone on the whole device makes them go apart.
  constexpr jit::Problem kLong = {.m = 8, .n = 8, .k = 100'000};
  EXPECT_FALSE(planner.Choose(Group(2, kLong), {}, All));
  EXPECT_FALSE(planner.Choose(Group(3, kLong), kTiny, All));
  EXPECT_TRUE(GroupPlanner().Choose(Group(3, kLong), kTiny, All));
}

TEST(GroupPlannerTest, WhatIsRefusedIsPassedOverAsLongAsItIs) {
  GroupPlanner planner;
  const Group group = Of({13, 1, 7});
  const auto best = planner.Choose(group, {}, All);
  ASSERT_TRUE(best);
  const auto next = planner.Choose(group, {}, [&](const auto& plan) {
    return plan.config != best->config;
  });
  ASSERT_TRUE(next);
  EXPECT_NE(next->config, best->config);
  ExpectSame(planner.Choose(group, {}, All), best);

  GroupPlanner later;
  later.Choose(group, {}, [](const jit::GroupPlan&) { return false; });
  ExpectSame(later.Choose(group, {}, All), best);
}

TEST(GroupPlannerTest, ManyDifferentGroupsArePlannedAllTheSame) {
  GroupPlanner planner;
  for (int64_t m = 1; m <= 600; ++m) {
    ASSERT_TRUE(planner.Choose(Of({m, 5, 9, 9, 9, 9, 9, 9, 9}), {}, All)) << m;
  }
  const Group last = Of({3, 5, 9, 9, 9, 9, 9, 9, 9});
  ExpectSame(planner.Choose(last, {}, All), jit::ChooseGroupPlan(last, {}, All));
}

}  // namespace
}  // namespace gemmd::engine
