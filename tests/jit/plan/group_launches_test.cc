// Which products of a call are made by one launch.
#include "jit/plan/group_launches.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jit/problem/problem_line.h"

namespace gemmd::jit {
namespace {

using Launches = std::vector<std::vector<size_t>>;

Launches LaunchesOf(const std::vector<std::string>& lines) {
  std::vector<Problem> problems;
  for (const std::string& line : lines) {
    problems.push_back(*ParseProblemLine(line));
  }
  std::vector<const Problem*> pointers;
  for (const Problem& problem : problems) pointers.push_back(&problem);
  return GroupLaunches(pointers);
}

TEST(GroupLaunchesTest, ThoseThatDifferInSizesAloneShareOne) {
  EXPECT_EQ(LaunchesOf({"bf16 TN 1 2 3", "f16 TN 1 2 3", "bf16 TN 9 8 7",
                        "f16 TN 4 4 4", "bf16 NN 1 2 3"}),
            (Launches{{0, 2}, {1, 3}, {4}}));
}

TEST(GroupLaunchesTest, WhatHasNoElementsHasNone) {
  EXPECT_EQ(LaunchesOf({"bf16 TN 0 2 3", "bf16 TN 1 2 3", "bf16 TN 1 0 3"}),
            (Launches{{1}}));
}

TEST(GroupLaunchesTest, WhatNeedsMoreThanOneKernelGoesAlone) {
  EXPECT_EQ(LaunchesOf({"bf16 TN 1 2 3 amax", "bf16 TN 1 2 3 amax",
                        "bf16 TN 1 2 0", "bf16 TN 1 2 0"}),
            (Launches{{0}, {1}, {2}, {3}}));
}

// Whatever comes after it.
TEST(GroupLaunchesTest, NothingJoinsWhatGoesAlone) {
  EXPECT_EQ(LaunchesOf({"bf16 TN 1 2 0", "bf16 TN 1 2 3", "bf16 TN 1 2 3"}),
            (Launches{{0}, {1, 2}}));
  EXPECT_EQ(LaunchesOf({"bf16 TN 1 2 3 alpha=0", "bf16 TN 1 2 3",
                        "bf16 TN 1 2 0 alpha=2", "bf16 TN 4 5 6 alpha=2",
                        "bf16 TN 1 2 3 alpha=3"}),
            (Launches{{0}, {1}, {2}, {3, 4}}));
}

TEST(GroupLaunchesTest, OneHasSoManyProductsAtMost) {
  const Launches launches =
      LaunchesOf(std::vector<std::string>(kMaxProducts + 1, "bf16 TN 1 2 3"));
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].size(), kMaxProducts);
  EXPECT_EQ(launches[1], std::vector<size_t>{kMaxProducts});
}

// Kernels count those of all products of a launch.
TEST(GroupLaunchesTest, OneHasSoManyTilesAtMost) {
  EXPECT_EQ(
      LaunchesOf({"bf16 TN 1 1 1 batch=1000000000",
                  "bf16 TN 1 1 1 batch=1146435072", "bf16 TN 1 1 1 batch=1",
                  "bf16 TN 1 1 1 batch=1000000000"}),
      (Launches{{0, 1}, {2, 3}}));
}

TEST(GroupLaunchesTest, TheBestPlanThatMayRunIsChosen) {
  const std::vector<Problem> many(20, *ParseProblemLine("bf16 TN 9 512 512"));
  const auto all = [](const GroupPlan&) { return true; };
  const auto best = ChooseGroupPlan(many, {}, all);
  ASSERT_TRUE(best.has_value());
  EXPECT_TRUE(best->config.grouped);
  const auto next = ChooseGroupPlan(many, {}, [&](const GroupPlan& group) {
    return group.config != best->config;
  });
  ASSERT_TRUE(next.has_value());
  EXPECT_NE(next->config, best->config);
  EXPECT_GE(next->predicted_cycles, best->predicted_cycles);
  EXPECT_FALSE(ChooseGroupPlan(many, {}, [](const GroupPlan&) {
                 return false;
               }).has_value());
  // Parts of k make each of these faster by itself.
  const std::vector<Problem> two(2, *ParseProblemLine("bf16 TN 8 8 100000"));
  EXPECT_FALSE(ChooseGroupPlan(two, {}, all).has_value());
}

TEST(GroupLaunchesTest, ThePlanIsTheBestOneAndPays) {
  const auto all = [](const GroupPlan&) { return true; };
  const auto alone = [](const Problem& problem) {
    return ChoosePlan(problem, {}).predicted_cycles;
  };
  for (const char* line :
       {"bf16 TN 9 512 512", "bf16 TN 700 900 64", "bf16 NT 8 8 100000",
        "s8 TN 64 256 9000", "f32 TN 33 65 129", "bf16-s4 TN 4 512 4096"}) {
    for (const size_t count : {2, 8, 9, 40}) {
      std::vector<Problem> problems(count, *ParseProblemLine(line));
      for (size_t i = 0; i < count; ++i) problems[i].m += 3 * (i % 5);
      const GroupPlan best = RankGroupPlans(problems, {}, 12)[0];
      const auto chosen = ChooseGroupPlan(problems, {}, all);
      ASSERT_EQ(chosen.has_value(), PaysTogether(problems, best, alone))
          << line << " x " << count;
      if (!chosen) continue;
      EXPECT_EQ(chosen->config, best.config) << line << " x " << count;
      EXPECT_EQ(chosen->predicted_cycles, best.predicted_cycles);
    }
  }
}

// Who remembers the plans of one product plans others like it by them.
TEST(GroupLaunchesTest, PlansOfAnyProductOfTheFamilyWillDo) {
  const auto all = [](const GroupPlan&) { return true; };
  const std::vector<Problem> problems(9, *ParseProblemLine("bf16 TN 9 512 64"));
  const std::vector<Plan> unsplit =
      UnsplitPlans(*ParseProblemLine("bf16 TN 4096 8 7000"), {});
  int asked = 0;
  const auto alone = [&](const Problem& problem) {
    ++asked;
    return ChoosePlan(problem, {}).predicted_cycles;
  };
  const auto chosen = ChooseGroupPlan(problems, {}, all, {unsplit, alone});
  const auto anew = ChooseGroupPlan(problems, {}, all);
  ASSERT_TRUE(chosen.has_value() && anew.has_value());
  EXPECT_EQ(chosen->config, anew->config);
  EXPECT_EQ(chosen->predicted_cycles, anew->predicted_cycles);
  EXPECT_EQ(asked, 1) << "of nine the largest";
}

}  // namespace
}  // namespace gemmd::jit
