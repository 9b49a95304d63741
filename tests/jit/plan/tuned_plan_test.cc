// Plans made again from tuning records, and what may stand in for a plan.
#include "jit/plan/tuned_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "jit/problem/problem_line.h"

namespace gemmd::jit {
namespace {

Problem Parse(const std::string& line) { return *ParseProblemLine(line); }

const char* const kProblems[] = {
    "bf16 TN 4096 7168 2304", "bf16 NT 64 7168 4096",
    "bf16 TN 512 512 8192",   "f32 NN 300 500 2000",
    "e4m3 TN 128 4096 16384", "bf16 TN 1 4096 4096 alpha=2 beta=1 c=f32",
};

void ExpectSamePlan(const Plan& plan, const Plan& other) {
  EXPECT_TRUE(SameLaunch(plan, other));
  EXPECT_EQ(plan.grid, other.grid);
  EXPECT_EQ(plan.partials_bytes, other.partials_bytes);
  EXPECT_EQ(plan.predicted_us, other.predicted_us);
}

TEST(UntunedPlan, IsTheFirstThatIsNotBalanced) {
  // Of which the planner's first choice is balanced.
  const Problem problem = {.m = 2672,
                           .n = 2048,
                           .k = 8192,
                           .a_order = Order::kColumnMajor,
                           .b_order = Order::kColumnMajor};
  const std::vector<Plan> plans = RankPlans(problem, {}, 64);
  const auto best = std::ranges::find(
      plans, false, [](const Plan& plan) { return plan.config.balanced; });
  ASSERT_NE(best, plans.end());
  const Plan plan = UntunedPlan(problem, {});
  EXPECT_FALSE(plan.config.balanced);
  EXPECT_EQ(KernelName(plan.family, plan.config),
            KernelName(best->family, best->config));
  // A tuner may still find one.
  EXPECT_TRUE(std::ranges::any_of(
      plans, [](const Plan& plan) { return plan.config.balanced; }));
}

TEST(TunedPlanTest, ARecordGivesThePlanThatItWasMadeOf) {
  for (const char* line : kProblems) {
    const Problem problem = Parse(line);
    for (const Plan& plan : RankPlans(problem, {}, 100)) {
      const auto again = TunedPlan(RecordOf(plan, problem), problem, {});
      ASSERT_TRUE(again) << line;
      ExpectSamePlan(*again, plan);
    }
  }
}

TEST(TunedPlanTest, TheRasterIsTheRecords) {
  const Problem problem = Parse("bf16 TN 4096 7168 2304");
  TuningRecord record = RecordOf(ChoosePlan(problem, {}), problem);
  record.raster_group = 3;
  ASSERT_TRUE(TunedPlan(record, problem, {}));
  EXPECT_EQ(TunedPlan(record, problem, {})->raster_group, 3);
  record.raster_group = 1000;
  EXPECT_FALSE(TunedPlan(record, problem, {}));
}

TEST(TunedPlanTest, ARecordOfWhatThePlannerDoesNotMakeGivesNone) {
  const Problem problem = Parse("bf16 TN 512 512 8192");
  const TuningRecord record = RecordOf(ChoosePlan(problem, {}), problem);
  TuningRecord other = record;
  other.kernel = "gemm_of_another_age";
  EXPECT_FALSE(TunedPlan(other, problem, {}));
  other = record;
  other.splits = 1000;
  EXPECT_FALSE(TunedPlan(other, problem, {}));
  EXPECT_FALSE(TunedPlan(record, Parse("f16 TN 512 512 8192"), {}));
}

TEST(TunedPlanTest, PlansOfSplitsSumInTheSameParts) {
  for (const char* line : kProblems) {
    const Problem problem = Parse(line);
    const Plan best = ChoosePlan(problem, {});
    const auto plans = RankPlansOfSplits(problem, {}, best.splits, 10);
    ASSERT_FALSE(plans.empty());
    ExpectSamePlan(plans.front(), best);
    for (size_t i = 0; i < plans.size(); ++i) {
      EXPECT_EQ(plans[i].splits, best.splits) << line;
      if (i > 0) {
        EXPECT_LE(plans[i - 1].predicted_us, plans[i].predicted_us);
      }
    }
  }
}

TEST(TunedPlanTest, InsteadOfARefusedPlanThoseOfItsSplitsComeFirst) {
  const Problem problem = Parse("bf16 TN 512 512 8192");
  std::set<int> kinds;
  for (const Plan& plan : RankPlans(problem, {}, 64)) kinds.insert(plan.splits);
  ASSERT_GT(kinds.size(), 1) << "another problem is needed";
  for (const int splits : kinds) {
    const auto plans = PlansInstead(problem, {}, splits, 1000);
    EXPECT_EQ(plans.front().splits, splits);
    bool others = false;
    for (const Plan& plan : plans) {
      others |= plan.splits != splits;
      EXPECT_EQ(plan.splits != splits, others);
    }
    EXPECT_TRUE(others);
  }
}

}  // namespace
}  // namespace gemmd::jit
