// Kernels of the plans whose threads hold the most in registers are as every
// kernel must be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "jit/plan/planner.h"
#include "jit/plan/tiling.h"
#include "jit/problem/arithmetic.h"
#include "tests/jit/source/kernel_test.h"

namespace gemmd::jit {
namespace {

int Registers(const Plan& plan) {
  return SumRegisters(plan.family, plan.config) +
         XRegisters(plan.family, plan.config);
}

class FullRegistersTest : public KernelTest {
 protected:
  // Of each schedule, alone, in pairs and in clusters of each size, the plan
  // that holds the most sums and X in registers.
  void ExpectGoodWithTheMostRegisters(const Problem& problem) {
    ASSERT_TRUE(Validate(problem).ok()) << Validate(problem);
    std::map<std::tuple<Schedule, int, bool, int, int>, Plan> most;
    for (const Plan& plan :
         RankPlans(problem, {}, std::numeric_limits<int>::max())) {
      const Config& config = plan.config;
      Plan& best = most.try_emplace({config.schedule, config.consumers,
                                     config.split_k, config.multicast,
                                     config.cluster},
                                    plan)
                       .first->second;
      if (Registers(plan) > Registers(best)) best = plan;
      clusters_.insert(config.cluster);
    }
    for (const auto& [shape, plan] : most) ExpectGood(plan);
  }

  std::set<int> clusters_;  // Sizes of those that there were.
};

// These leave the fewest registers to what widens, scales and rounds.
TEST_F(FullRegistersTest, KernelsOfScaledWeightsAreGood) {
  for (const Arithmetic& arithmetic : Arithmetics()) {
    Problem problem = {.m = 4096, .n = 4096, .k = 8192};
    problem.SetArithmetic(arithmetic);
    if (!problem.mixed() || !problem.weights_are_b()) continue;
    problem.b_order = Order::kColumnMajor;
    problem.quantization.group = 32;
    for (const DataType d : {DataType::kF32, problem.a_type}) {
      problem.d_type = problem.c_type = d;
      for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
        problem.d_order = order;
        ExpectGoodWithTheMostRegisters(problem);
      }
    }
  }
}

// Of three consumers in clusters of 3 and 5 that have both operands mn-major,
// those with the most registers once had too many.
TEST_F(FullRegistersTest, KernelsOfClustersAreGood) {
  Problem problem = {.k = 8192};
  problem.a_order = Order::kColumnMajor;
  problem.b_order = Order::kRowMajor;
  for (const int64_t size : {128, 256, 640, 1088}) {
    problem.m = problem.n = size;
    for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
      problem.d_order = order;
      ExpectGoodWithTheMostRegisters(problem);
    }
  }
  EXPECT_THAT(clusters_, testing::ElementsAre(1, 2, 3, 4, 5, 8, 16));
}

// What differs is found by the bits of both operands, beside sums and C.
TEST_F(FullRegistersTest, KernelsOfBitsThatDifferAreGood) {
  for (const DataType d : OutputsOf(DataType::kS32)) {
    Problem problem = {.m = 4096, .n = 8192, .k = 4096};
    problem.SetArithmetic({.a = DataType::kB1,
                           .b = DataType::kB1,
                           .accumulator = DataType::kS32,
                           .bit_operation = BitOperation::kXor});
    problem.b_order = Order::kColumnMajor;
    problem.d_type = problem.c_type = d;
    for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
      problem.d_order = order;
      for (const float beta : {0.0f, 1.0f}) {
        problem.beta = beta;
        ExpectGoodWithTheMostRegisters(problem);
      }
    }
  }
}

}  // namespace
}  // namespace gemmd::jit
