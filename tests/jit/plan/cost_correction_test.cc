#include "jit/plan/cost_correction.h"

#include <gtest/gtest.h>

#include <cmath>

#include "jit/plan/planner.h"
#include "jit/problem/problem_line.h"

namespace gemmd::jit {
namespace {

TEST(CostCorrectionTest, EveryProblemHasAFinitePositiveTime) {
  for (const char* line :
       {"bf16 TN 1 1 1", "bf16 NT 1 1 2147483392", "f16 TT 2147483392 1 1",
        "bf16 NN 1000000 1000000 16", "bf16 TN 8192 8192 8192",
        "bf16 NN 16 16 65536"}) {
    const Problem problem = *ParseProblemLine(line);
    for (const Plan& plan : RankPlans(problem, {}, 64)) {
      ASSERT_TRUE(std::isfinite(plan.predicted_us)) << line;
      ASSERT_GT(plan.predicted_us, 0) << line;
    }
  }
}

TEST(CostCorrectionTest, PlansAreRankedByTheCorrectedTime) {
  const Problem problem = *ParseProblemLine("bf16 NN 184 12288 14040");
  const auto plans = RankPlans(problem, {}, 40);
  ASSERT_EQ(plans.size(), 40);
  for (size_t i = 1; i < plans.size(); ++i) {
    EXPECT_LE(plans[i - 1].predicted_us, plans[i].predicted_us);
  }
  EXPECT_EQ(KernelName(plans[0].family, plans[0].config),
            KernelName(ChoosePlan(problem, {}).family,
                       ChoosePlan(problem, {}).config));
}

// Within a factor of two of what an H200 took (gemm_bench, 2026-11-21).
TEST(CostCorrectionTest, PredictsWhatWasMeasured) {
  const auto predicted = [](const char* line) {
    return ChoosePlan(*ParseProblemLine(line), {}).predicted_us;
  };
  EXPECT_NEAR(std::log2(predicted("bf16 TN 8192 8192 8192") / 1320), 0, 1);
  EXPECT_NEAR(std::log2(predicted("bf16 TN 1024 1024 1024") / 6.2), 0, 1);
  EXPECT_NEAR(std::log2(predicted("bf16 TN 64 7168 4096") / 23), 0, 1);
}

}  // namespace
}  // namespace gemmd::jit
