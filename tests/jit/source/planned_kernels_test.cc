// Kernels that the planner picks, or that the tuner could, for every arithmetic
// and for random problems with whatever epilogue can be asked for, are as every
// kernel must be.
//
// GEMMD_PLANNED_KERNELS=N takes N problems instead of a few, others for every
// --gtest_random_seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "jit/plan/group_plan.h"
#include "jit/plan/planner.h"
#include "jit/problem/arithmetic.h"
#include "tests/jit/source/kernel_test.h"

namespace gemmd::jit {
namespace {

constexpr int kProblems = 20;
constexpr int kAll = std::numeric_limits<int>::max();

int Problems() {
  const char* const asked = std::getenv("GEMMD_PLANNED_KERNELS");
  return asked == nullptr ? kProblems : std::atoi(asked);
}

class RandomProblems {
 public:
  Problem Next() {
    const Arithmetic& arithmetic = Pick(Arithmetics());
    Problem problem = {.m = Size(), .n = Size(), .k = Size()};
    problem.SetArithmetic(arithmetic);
    problem.d_type = Pick(OutputsOf(arithmetic.accumulator));
    problem.a_order = AnyOrder();
    problem.b_order = AnyOrder();
    problem.d_order = AnyOrder();
    if (arithmetic.sparse == Sparse::kA) problem.a_order = Order::kRowMajor;
    if (arithmetic.sparse == Sparse::kB) problem.b_order = Order::kColumnMajor;
    if (arithmetic.sparse != Sparse::kNone) problem.k += -problem.k & 3;
    if (problem.mixed() && random_() % 4 != 0) Quantize(problem);
    problem.invariant = random_() % 4 == 0;
    problem.beta = random_() % 2 ? 1.0f : 0.0f;
    problem.c_type = problem.d_type;
    if (problem.d_type == DataType::kS32) return problem;
    if (random_() % 2) problem.c_type = DataType::kF32;
    problem.alpha = random_() % 2 ? 2.0f : 1.0f;
    AddSteps(problem.epilogue);
    if (arithmetic.accumulator == DataType::kF32 && IsFp8(arithmetic.a) &&
        IsFp8(arithmetic.b) && arithmetic.precision == Precision::kDefault &&
        arithmetic.sparse == Sparse::kNone && random_() % 3 == 0) {
      problem.epilogue.a_scale = problem.epilogue.b_scale = Extent::kBlock;
    }
    return problem;
  }

  // Few lines by many weights, as decoders have them.
  Problem NextOfWeights() {
    constexpr DataType kActivations[] = {DataType::kBf16, DataType::kF16};
    constexpr DataType kWeights[] = {DataType::kS4, DataType::kU4,
                                     DataType::kS8, DataType::kE4m3};
    constexpr int64_t kLines[] = {1, 16, 33, 48, 64, 100, 128, 512};
    constexpr int64_t kLong[] = {512, 1024, 4096, 8192};
    Problem problem = {.m = Pick(kLines), .n = Pick(kLong), .k = Pick(kLong)};
    problem.a_type = Pick(kActivations);
    problem.b_type = Pick(kWeights);
    problem.d_type = problem.c_type = problem.a_type;
    problem.b_order = Order::kColumnMajor;
    problem.d_order = AnyOrder();
    problem.beta = random_() % 4 == 0 ? 1.0f : 0.0f;
    if (random_() % 4 != 0) Quantize(problem);
    return problem;
  }

  // One of all plans for `problem`, however slow.
  Plan AnyPlan(const Problem& problem) {
    return Pick(RankPlans(problem, {}, kAll));
  }

 private:
  template <typename Range>
  auto Pick(const Range& range) -> decltype(*std::begin(range)) {
    return *(std::begin(range) + random_() % std::size(range));
  }
  Order AnyOrder() {
    return random_() % 2 ? Order::kRowMajor : Order::kColumnMajor;
  }
  int64_t Size() {
    constexpr int64_t kSizes[] = {1, 16, 72, 129, 512, 1000, 4096, 8192};
    return Pick(kSizes);
  }
  void Quantize(Problem& problem) {
    constexpr int32_t kGroups[] = {32, 64, 128, kWholeLine};
    problem.quantization.group = Pick(kGroups);
    const bool b = problem.weights_are_b();
    if (b) problem.b_order = Order::kColumnMajor;
    if (!b) problem.a_order = Order::kRowMajor;
    const DataType weights = b ? problem.b_type : problem.a_type;
    problem.quantization.zero_points = BitsOf(weights) == 4 && random_() % 2;
  }
  void AddSteps(Epilogue& epilogue) {
    using enum Extent;
    epilogue.bias = Pick(std::vector<Extent>{kNone, kRow, kColumn});
    epilogue.a_scale = Pick(std::vector<Extent>{kNone, kTensor, kRow});
    epilogue.b_scale = Pick(std::vector<Extent>{kNone, kTensor, kColumn});
    epilogue.activation = static_cast<Activation>(random_() % 5);
    epilogue.writes_auxiliary = random_() % 3 == 0;
    epilogue.measures_amax = random_() % 3 == 0;
    epilogue.d_scale = random_() % 3 == 0;
  }

  std::mt19937 random_{20u + GTEST_FLAG_GET(random_seed)};
};

class PlannedKernelsTest : public KernelTest {
 protected:
  void ExpectGoodPlan(const Problem& problem) {
    ASSERT_TRUE(Validate(problem).ok()) << Validate(problem);
    ExpectGood(ChoosePlan(problem, {}));
  }
  // Of many such products together.
  void ExpectGoodGroupPlan(const Problem& problem) {
    for (const GroupPlan& plan :
         RankGroupPlans(std::vector<Problem>(12, problem), {}, 12)) {
      ExpectGood(plan.family, plan.config);
    }
  }
};

TEST_F(PlannedKernelsTest, AreGoodOfEveryArithmetic) {
  for (const Arithmetic& arithmetic : Arithmetics()) {
    Problem problem = {.m = 512, .n = 1000, .k = 4096};
    problem.SetArithmetic(arithmetic);
    problem.b_order = Order::kColumnMajor;
    problem.d_type = problem.c_type = OutputsOf(arithmetic.accumulator)[0];
    ExpectGoodPlan(problem);
  }
}

// The largest tiles leave the fewest registers to what groups take besides.
TEST_F(PlannedKernelsTest, AreGoodOfGroupsOfLargeProducts) {
  for (const Order a : {Order::kRowMajor, Order::kColumnMajor}) {
    for (const Order b : {Order::kRowMajor, Order::kColumnMajor}) {
      for (const Order d : {Order::kRowMajor, Order::kColumnMajor}) {
        Problem problem = {.m = 8192, .n = 8192, .k = 8192};
        problem.a_order = a, problem.b_order = b, problem.d_order = d;
        ExpectGoodGroupPlan(problem);
      }
    }
  }
}

TEST_F(PlannedKernelsTest, AreGoodWhateverIsAsked) {
  RandomProblems random;
  for (int i = 0; i < Problems(); ++i) ExpectGoodPlan(random.Next());
}

TEST_F(PlannedKernelsTest, AreGoodOfWeights) {
  RandomProblems random;
  for (int i = 0; i < Problems(); ++i) ExpectGoodPlan(random.NextOfWeights());
}

TEST_F(PlannedKernelsTest, AreGoodHoweverSlow) {
  RandomProblems random;
  for (int i = 0; i < Problems(); ++i) {
    ExpectGood(random.AnyPlan(random.Next()));
  }
}

}  // namespace
}  // namespace gemmd::jit
