// What a product is said to take.
#include "service/engine/cost.h"

#include <gtest/gtest.h>

#include "jit/plan/planner.h"

namespace gemmd::engine {
namespace {

double Multiplications(const jit::Problem& problem) {
  return HostMultiplications(problem, jit::ChoosePlan(problem, {}));
}

// On two cores, each of 5e9 multiplications a second, 2048x2048 elements take
// some 80 ms however little of k there is.
TEST(HostMultiplicationsTest, ElementsOfDCount) {
  const double thin = Multiplications({.m = 2048, .n = 2048, .k = 1});
  EXPECT_GT(thin / 1e10, 0.03);
  EXPECT_LT(thin / 1e10, 0.2);
  const double thick = Multiplications({.m = 2048, .n = 2048, .k = 4096});
  EXPECT_LT(thick, 1.15 * 2048 * 2048 * 4096);
}

TEST(HostMultiplicationsTest, WhatIsDoneToElementsOfDCounts) {
  jit::Problem problem = {.m = 2048, .n = 2048, .k = 1};
  const double plain = Multiplications(problem);
  problem.epilogue.activation = jit::Activation::kGeluErf;
  const double activated = Multiplications(problem);
  EXPECT_GT(activated, 1.2 * plain);
  problem.d_type = problem.c_type = jit::DataType::kE4m3;
  problem.epilogue.writes_auxiliary = true;
  EXPECT_GT(Multiplications(problem), 1.5 * activated);
}

// A row of A takes as long as some dozens of them: all of B is packed for it.
TEST(HostMultiplicationsTest, PackedElementsCount) {
  const double one = Multiplications({.m = 1, .n = 8192, .k = 4096});
  EXPECT_GT(one / 8192 / 4096, 45);
  EXPECT_LT(one / 8192 / 4096, 60);
}

// A row of 2^20 elements with a k of 1 was measured to take 0.19 s, in f32 1.1,
// in s8 0.01.
TEST(HostMultiplicationsTest, StagesThatKDoesNotFillCount) {
  jit::Problem problem = {.m = 1, .n = 1 << 20, .k = 1};
  const double plain = Multiplications(problem);
  EXPECT_GT(plain / 1e10, 0.1);
  EXPECT_LT(plain / 1e10, 0.3);
  problem.k = 64;
  EXPECT_LT(Multiplications(problem), 2.5 * plain);
  problem.k = 1;
  problem.a_type = problem.b_type = jit::DataType::kF32;
  EXPECT_GT(Multiplications(problem), 4 * plain);
  problem.a_type = problem.b_type = jit::DataType::kS8;
  problem.accumulator = jit::DataType::kS32;
  EXPECT_LT(Multiplications(problem), 0.2 * plain);
}

// The host was measured to take 1.5 times as long for groups of 32.
TEST(HostMultiplicationsTest, ScalesOfGroupsCountTheMoreTheShorterTheyAre) {
  jit::Problem problem = {.m = 512, .n = 512, .k = 4096};
  const double plain = Multiplications(problem);
  problem.b_type = jit::DataType::kU4;
  problem.b_order = jit::Order::kColumnMajor;
  problem.quantization = {.group = 128};
  const double long_groups = Multiplications(problem);
  problem.quantization = {.group = 32, .zero_points = true};
  const double short_groups = Multiplications(problem);
  EXPECT_GT(long_groups, 1.1 * plain);
  EXPECT_GT(short_groups, 1.3 * plain);
  EXPECT_LT(short_groups, 2 * plain);
  EXPECT_GT(short_groups, long_groups);
}

TEST(HostMultiplicationsTest, ScalesOfBlocksCount) {
  jit::Problem problem = {.m = 512,
                          .n = 512,
                          .k = 4096,
                          .a_type = jit::DataType::kE4m3,
                          .b_type = jit::DataType::kE4m3};
  const double plain = Multiplications(problem);
  problem.epilogue.a_scale = problem.epilogue.b_scale = jit::Extent::kBlock;
  EXPECT_GT(Multiplications(problem), 1.05 * plain);
}

TEST(HostMultiplicationsTest, MatricesCount) {
  const jit::Problem one = {.m = 1, .n = 1, .k = 1};
  jit::Problem many = one;
  many.batch = 1000;
  EXPECT_DOUBLE_EQ(Multiplications(many), 1000 * Multiplications(one));
}

}  // namespace
}  // namespace gemmd::engine
