// Sizes that are refused, and that those which are not can be planned.
#include "jit/problem/sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "jit/plan/launch_arithmetic.h"
#include "jit/plan/planner.h"
#include "jit/plan/tuned_plan.h"
#include "jit/problem/problem_line.h"

namespace gemmd::jit {
namespace {

// What is said of a line that is refused; nothing of one that is not.
std::string Refusal(const std::string& line) {
  const absl::Status status = ParseProblemLine(line).status();
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(Sizes, TilesAreCounted) {
  EXPECT_EQ(Refusal("bf16 TN 1 1 1 batch=2146435072"), "");
  EXPECT_EQ(Refusal("bf16 TN 1 1 1 batch=2146435073"),
            "problem.batch * ceil(problem.m / 64) * ceil(problem.n / 8) is "
            "2146435073; allowed: 0 to 2146435072");
  EXPECT_EQ(Refusal("bf16 TN 64 64 64 batch=268304384"), "");
  EXPECT_EQ(Refusal("bf16 TN 64 64 64 batch=268304385"),
            "problem.batch * ceil(problem.m / 64) * ceil(problem.n / 8) is "
            "2146435080; allowed: 0 to 2146435072");
  EXPECT_NE(Refusal("bf16 TN 64 65 64 batch=268304384"), "");
}

TEST(Sizes, BothWaysThatTilesMayLie) {
  EXPECT_EQ(Refusal("bf16 TN 8 128 64 batch=134152192"), "");
  EXPECT_EQ(Refusal("bf16 TN 8 136 64 batch=134152192"),
            "problem.batch * ceil(problem.m / 64) * ceil(problem.n / 8) is "
            "2280587264; allowed: 0 to 2146435072");
  EXPECT_EQ(Refusal("bf16 TN 136 8 64 batch=134152192"),
            "problem.batch * ceil(problem.n / 64) * ceil(problem.m / 8) is "
            "2280587264; allowed: 0 to 2146435072");
}

TEST(Sizes, WhatOverflowsTheLargestIntegersIsStillTold) {
  const std::string refusal =
      Refusal("bf16 TN 1073741824 1073741824 64 batch=1073741824");
  EXPECT_TRUE(absl::StrContains(refusal, " is 2.41785e+24; allowed: 0 to "))
      << refusal;
}

TEST(Sizes, ProductsThatFitADeviceAreNotRefused) {
  for (const char* line :
       {"bf16 TN 300000 300000 64", "bf16 TN 128 128 128 batch=65535",
        "bf16 TN 1 4096 4096 batch=1000000", "f32 TN 128 128 8 batch=65535",
        "f32 TN 1 4096 1 batch=2000000", "b1 TN 8 8 2147483392",
        "f32 TN 1 1 1000000000", "bf16 TN 2147483392 8 8",
        "e4m3 TN 8 2147483392 16", "bf16-s4 TN 16 65536 1048576 group=128",
        "bf16 TN 0 2147483392 2147483392 batch=2147483392"}) {
    EXPECT_EQ(Refusal(line), "");
  }
}

TEST(Sizes, PlanesOfF32Count) {
  EXPECT_EQ(Refusal("f32 TN 1 1 1 batch=536608768"), "");
  EXPECT_EQ(Refusal("f32 TN 1 1 1 batch=536608769"),
            "problem.batch is 536608769; allowed with a_type f32, precision "
            "default: 0 to 536608768");
  EXPECT_EQ(Refusal("tf32 TN 1 1 1 batch=536608769"), "");
}

TEST(Sizes, SparseProductsHaveHalfOfK) {
  for (const std::string type :
       {"sparse-bf16", "sparse-e4m3", "bf16-sparse", "sparse-s8"}) {
    EXPECT_EQ(Refusal(absl::StrCat(type, " TN 64 64 1073741696")), "");
    const std::string refusal =
        Refusal(absl::StrCat(type, " TN 64 64 1073741700"));
    EXPECT_TRUE(absl::StartsWith(
        refusal, "problem.k is 1073741700; allowed with sparse "))
        << refusal;
    EXPECT_TRUE(absl::EndsWith(refusal, ": 0 to 1073741696")) << refusal;
  }
  EXPECT_EQ(Refusal("sparse-tf32 TN 64 64 536870848"), "");
  EXPECT_EQ(Refusal("sparse-tf32 TN 64 64 536870850"),
            "problem.k is 536870850; allowed with sparse a: 0 to 536870848");
}

// Where the coordinate of a kernel's last load of metadata ends.
TEST(Sizes, CoordinatesOfMetadataFit) {
  for (const char* line :
       {"sparse-bf16 TN 64 64 1073741696", "sparse-e4m3 TN 64 64 1073741696",
        "sparse-tf32 TN 64 64 536870848"}) {
    const Plan plan = ChoosePlan(*ParseProblemLine(line), {});
    EXPECT_LT(plan.metadata.width, int64_t{1} << 31) << line;
    EXPECT_EQ(plan.metadata.width,
              int64_t{plan.stages} * plan.metadata.box_width);
  }
}

TEST(Sizes, ElementsOfOperandsAreCounted) {
  EXPECT_TRUE(absl::StrContains(Refusal("f32 TN 2147483392 1 2147483392"),
                                "the elements of A, is 4.61168e+18; allowed"))
      << Refusal("f32 TN 2147483392 1 2147483392");
  EXPECT_TRUE(absl::StrContains(Refusal("f32 TN 1 2147483392 2147483392"),
                                "the elements of B, is 4.61168e+18; allowed"));
}

class Dice {
 public:
  int Up(int count) { return static_cast<int>(random_() % count); }

  // Powers of two, small multiples of them, and what is next to those.
  int64_t Dimension() {
    const int64_t value = (int64_t{1} << Up(31)) * (1 + Up(2) * Up(7));
    const int64_t near = value + (Up(3) == 0 ? Up(3) - 1 : 0);
    return std::clamp<int64_t>(near, 1, kMaxDimension);
  }

 private:
  std::mt19937 random_{3};
};

Problem RandomProblem(Dice& dice) {
  Problem problem;
  problem.SetArithmetic(
      Arithmetics()[dice.Up(static_cast<int>(Arithmetics().size()))]);
  problem.m = dice.Dimension();
  problem.n = dice.Dimension();
  problem.k = dice.Dimension() / 4 * 4;
  problem.batch = dice.Up(2) == 0 ? 1 : dice.Dimension();
  if (problem.sparse == Sparse::kB) problem.b_order = Order::kColumnMajor;
  if (problem.mixed() && dice.Up(2) == 0) {
    problem.a_order = Order::kRowMajor;
    problem.b_order = Order::kColumnMajor;
    problem.quantization.group = 128;
  }
  return problem;
}

TEST(Sizes, WhatIsNotRefusedIsPlanned) {
  Dice dice;
  int refused = 0;
  int planned = 0;
  while (planned < 5000) {
    const Problem problem = RandomProblem(dice);
    if (!Validate(problem).ok()) {
      ++refused;
      continue;
    }
    ++planned;
    const Plan plan = UntunedPlan(problem, {});
    ASSERT_TRUE(std::isfinite(plan.predicted_cycles) &&
                plan.predicted_cycles > 0)
        << ProblemLine(problem) << ": " << plan.predicted_cycles;
    ASSERT_GE(plan.grid, plan.splits == 0 ? 0 : 1) << ProblemLine(problem);
    ASSERT_LE(Units(plan), kMaxTiles) << ProblemLine(problem);
    ASSERT_GE(plan.x.matrix_bytes, 0) << ProblemLine(problem);
    ASSERT_GE(plan.y.matrix_bytes, 0) << ProblemLine(problem);
  }
  EXPECT_GT(refused, 50);  // Both sides have been there.
}

}  // namespace
}  // namespace gemmd::jit
