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
  EXPECT_LT(thick, 1.1 * 2048 * 2048 * 4096);
}

TEST(HostMultiplicationsTest, MatricesCount) {
  const jit::Problem one = {.m = 1, .n = 1, .k = 1};
  jit::Problem many = one;
  many.batch = 1000;
  EXPECT_DOUBLE_EQ(Multiplications(many), 1000 * Multiplications(one));
}

}  // namespace
}  // namespace gemmd::engine
