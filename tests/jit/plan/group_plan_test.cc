// Which products one launch makes, and with which config.
#include "jit/plan/group_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jit/plan/launch_arithmetic.h"
#include "jit/problem/problem_line.h"

namespace gemmd::jit {
namespace {

Problem Line(const std::string& line) {
  absl::StatusOr<Problem> problem = ParseProblemLine(line);
  EXPECT_TRUE(problem.ok()) << problem.status();
  return *problem;
}

std::vector<Problem> Experts(std::vector<int64_t> rows) {
  std::vector<Problem> problems;
  for (const int64_t m : rows) {
    problems.push_back(Line("bf16 TN 1 4096 2048 order=row"));
    problems.back().m = m;
  }
  return problems;
}

TEST(GroupPlanTest, OnlyWhatOneKernelMakesAloneGoesTogether) {
  EXPECT_TRUE(MayGoTogether(Line("bf16 TN 8 8 8 beta=2 bias=row aux batch=3")));
  EXPECT_TRUE(MayGoTogether(Line("e4m3 NT 8 8 8")));
  EXPECT_FALSE(MayGoTogether(Line("bf16 TN 8 8 0"))) << "a reduction's job";
  EXPECT_FALSE(MayGoTogether(Line("bf16 TN 8 8 8 alpha=0")));
  EXPECT_FALSE(MayGoTogether(Line("bf16 TN 0 8 8")));
  EXPECT_FALSE(MayGoTogether(Line("bf16 TN 8 8 8 amax")));
  EXPECT_FALSE(MayGoTogether(Line("b1 TN 8 8 8 op=xor")));
  EXPECT_FALSE(MayGoTogether(Line("bf16 TN 8 8 8 beta=1 c=f32")));
}

TEST(GroupPlanTest, SizesAndScalarsMayDiffer) {
  const Problem one = Line("bf16 TN 8 16 24 alpha=2 beta=3");
  EXPECT_TRUE(GoTogether(one, Line("bf16 TN 1 999 5 alpha=7 beta=-1 batch=9")));
  for (const char* other :
       {"f16 TN 8 16 24 alpha=2 beta=3", "bf16 NN 8 16 24 alpha=2 beta=3",
        "bf16 TN 8 16 24 beta=3", "bf16 TN 8 16 24 alpha=2",
        "bf16 TN 8 16 24 alpha=2 beta=3 order=row",
        "bf16 TN 8 16 24 alpha=2 beta=3 d=f32",
        "bf16 TN 8 16 24 alpha=2 beta=3 act=relu"}) {
    EXPECT_FALSE(GoTogether(one, Line(other))) << other;
  }
  // What goes together has one family, whichever operand is exchanged.
  const Problem two = Line("bf16 TN 1 999 5 alpha=7 beta=-1 batch=9");
  for (const GroupPlan& group : RankGroupPlans({one, two}, {}, 1000)) {
    ASSERT_TRUE(PlanWith(two, {}, group.family, group.config).has_value());
  }
}

TEST(GroupPlanTest, PlansAreOfOneLaunchAndSplitNothing) {
  const std::vector<Problem> problems = Experts({13, 0x11, 300, 1});
  const DeviceProperties device = {.multiprocessors = 100};
  const std::vector<GroupPlan> ranked = RankGroupPlans(problems, device, 5);
  ASSERT_EQ(ranked.size(), 5u);
  for (const GroupPlan& group : ranked) {
    EXPECT_TRUE(group.config.grouped);
    EXPECT_FALSE(group.config.split_k);
    EXPECT_GE(group.predicted_cycles, ranked[0].predicted_cycles);
    const std::string name = KernelName(group.family, group.config);
    EXPECT_EQ(name.substr(name.size() - 8), "_grouped");
    int64_t tiles = 0;
    const std::vector<Plan> plans = PlansOf(problems, device, group);
    ASSERT_EQ(plans.size(), problems.size());
    for (size_t i = 0; i < plans.size(); ++i) {
      EXPECT_EQ(plans[i].config, group.config);
      EXPECT_EQ(plans[i].family, group.family);
      EXPECT_EQ(plans[i].rows * plans[i].columns, problems[i].m * 4096);
      EXPECT_EQ(plans[i].splits, 1);
      tiles += Tiles(plans[i]);
    }
    for (const Plan& plan : plans) {
      EXPECT_EQ(plan.grid, std::min<int64_t>(tiles, 100));
    }
  }
}

TEST(GroupPlanTest, AnotherKernelOfTheFamilyHasItsPrice) {
  const std::vector<Problem> problems = Experts({200, 200, 200});
  const std::vector<GroupPlan> ranked = RankGroupPlans(problems, {}, 50);
  for (const GroupPlan& group : ranked) {
    const auto with = GroupPlanWith(problems, {}, group.family, group.config);
    ASSERT_TRUE(with.has_value());
    EXPECT_EQ(with->predicted_cycles, group.predicted_cycles);
  }
  Config single = ranked[0].config;
  single.grouped = false;
  EXPECT_FALSE(
      GroupPlanWith(problems, {}, ranked[0].family, single).has_value())
      << "its arguments are those of one product";
  Family other = ranked[0].family;
  other.epilogue.alpha = true;
  EXPECT_FALSE(
      GroupPlanWith(problems, {}, other, ranked[0].config).has_value());
}

TEST(GroupPlanTest, TilesFitTheRowsThatMostExpertsHave) {
  const auto columns = [](const std::vector<Problem>& problems) {
    return RankGroupPlans(problems, {}, 1)[0].config.tile_n;
  };
  EXPECT_LE(columns(Experts(std::vector<int64_t>(64, 5))), 16);
  EXPECT_GE(columns(Experts(std::vector<int64_t>(8, 4096))), 128);
}

TEST(GroupPlanTest, FewLongSumsArePaidApart) {
  const auto alone = [](const Problem& problem) {
    return ChoosePlan(problem, {}).predicted_cycles;
  };
  const auto pays = [&](const std::vector<Problem>& problems) {
    return PaysTogether(problems, RankGroupPlans(problems, {}, 1)[0], alone);
  };
  EXPECT_TRUE(pays(Experts({3, 5})));
  EXPECT_TRUE(pays(Experts(std::vector<int64_t>(100, 64))));
  // Two tiles of very long sums: parts of k keep all SMs busy.
  const Problem tall = Line("bf16 TN 64 64 1000000");
  EXPECT_FALSE(pays({tall, tall}));
  EXPECT_FALSE(pays(std::vector<Problem>(9, Line("bf16 TN 8 8 1000000"))))
      << "nine are as few";
}

TEST(GroupPlanTest, ABatchWithOneWeightCountsAsTheProductThatItIs) {
  const Problem batch = Line("bf16 TN 8 64 256 batch=32 broadcast=a");
  const Problem one = Line("bf16 TN 8 2048 256");
  const GroupPlan of_batch = RankGroupPlans({batch, batch}, {}, 1)[0];
  const GroupPlan of_one = RankGroupPlans({one, one}, {}, 1)[0];
  EXPECT_EQ(of_batch.config, of_one.config);
  EXPECT_EQ(of_batch.predicted_cycles, of_one.predicted_cycles);
}

}  // namespace
}  // namespace gemmd::jit
