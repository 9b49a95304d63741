#include "service/host/hopper/hopper_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <random>
#include <vector>

#include "jit/plan/planner.h"
#include "service/host/elements.h"
#include "service/host/hopper/add.h"
#include "service/host/hopper/split.h"
#include "tests/service/host/hopper/vectors.h"
#include "tests/service/host/product.h"

namespace gemmd::host {
namespace {

using jit::DataType;
using jit::Order;
using jit::Plan;
using jit::Problem;

// Where the problem has scales by block.
float AScale(int64_t row, int64_t k) {
  return 1 + 0.1f * static_cast<float>(row) + 0.3f * static_cast<float>(k);
}
float BScale(int64_t k, int64_t column) {
  return 0.7f - 0.2f * static_cast<float>(k) -
         0.01f * static_cast<float>(column);
}

// D in f32 of operands that lie as the problem says.
std::vector<float> Multiply(const Problem& problem, const Plan& plan,
                            const std::string& a, const std::string& b) {
  std::string d(problem.d().device_bytes(), '\0');
  const std::string a_scale = Bytes(problem.a_scale(), AScale);
  const std::string b_scale = Bytes(problem.b_scale(), BScale);
  Gemm(problem, plan,
       {.a = a.data(),
        .b = b.data(),
        .d = d.data(),
        .a_scale = a_scale.data(),
        .b_scale = b_scale.data()});
  std::vector<float> found;
  for (int64_t i = 0; i < problem.m; ++i) {
    const auto* line = reinterpret_cast<const float*>(
        d.data() + i * problem.d().pitch_bytes());
    found.insert(found.end(), line, line + problem.n);
  }
  return found;
}

// As the kernel does, product by product. Elements of quantized weights are
// less their zero points.
class ByElement {
 public:
  ByElement(const Problem& problem, const Plan& plan)
      : problem_(problem),
        plan_(plan),
        adder_(AdderOf(plan.family.instruction).value()) {}

  float Sum(const Element& a, const Element& b, int64_t i, int64_t j) const {
    float sum = 0;
    for (int part = 0; part < plan_.splits; ++part) {
      float total = 0;
      double held = 0;
      for (int64_t u = part; u < int64_t{plan_.stages} * plan_.passes;
           u += plan_.splits) {
        for (int64_t half = 0; half < halves(); ++half) {
          held = AddStage(a, b, i, j, u, half, held);
          if (plan_.family.sum == jit::Summation::kDirect) continue;
          if (!EndsGroup(u)) continue;
          total =
              std::fma(Scale(i, j, u, half), static_cast<float>(held), total);
          held = 0;
        }
      }
      sum += total + static_cast<float>(held);
    }
    return sum;
  }

 private:
  // Of a stage, with scales of their own: else it is whole.
  int64_t halves() const { return problem_.quantization.group == 32 ? 2 : 1; }

  // Where a CTA has all stages, those of a group are summed up first.
  bool EndsGroup(int64_t unit) const {
    const int64_t stages = problem_.quantization.group / 64;
    return stages < 2 || plan_.splits > 1 || (unit + 1) % stages == 0 ||
           unit == plan_.stages - 1;
  }

  float Scale(int64_t i, int64_t j, int64_t unit, int64_t half) const {
    const int64_t group = problem_.quantization.group;
    if (group != 0) {
      const int64_t k = 64 * unit + 32 * half;
      return k < problem_.k
                 ? SomeScale(problem_.weights_are_b() ? j : i, k / group)
                 : 0;
    }
    return plan_.family.sum == jit::Summation::kBlockScaled
               ? AScale(i, unit) * BScale(unit, j / 128)
               : 1;
  }

  // Least exponents are those of what is multiplied.
  int Least(DataType type) const {
    return LeastExponent(problem_.mixed() ? plan_.family.instruction.x : type);
  }

  double Factor(DataType type, double value, uint32_t planes,
                int64_t pass) const {
    const float element = static_cast<float>(value);
    if (type != DataType::kF32) return value;
    if (problem_.precision == jit::Precision::kTf32) {
      return RoundToTf32(element);
    }
    if (problem_.precision == jit::Precision::kFast) {
      return TruncateToTf32(element);
    }
    return SplitF32(element).plane[planes >> 2 * pass & 3];
  }

  double AddStage(const Element& a, const Element& b, int64_t i, int64_t j,
                  int64_t unit, int64_t half, double held) const {
    // The passes of small terms take turns, stage by stage, before the last one.
    const int64_t small = plan_.passes - 1;
    const bool is_small = unit < small * plan_.stages;
    const int64_t pass = is_small ? unit % small : small;
    const int64_t stage =
        is_small ? unit / small : unit - small * plan_.stages;
    // An instruction with a sparse operand goes through twice the k.
    const bool sparse = problem_.sparse != jit::Sparse::kNone;
    const int instructions = (sparse ? 2 : 4) / halves();
    const int64_t steps = instructions * adder_.products;
    const int64_t first = (stage * halves() + half) * steps;
    std::vector<double> row(steps), panel(steps * kPanel), sums(kPanel);
    std::vector<int16_t> row_exponents(steps, kNoExponent);
    std::vector<int16_t> panel_exponents(steps * kPanel, kNoExponent);
    for (int64_t p = 0; p < steps && first + p < problem_.k; ++p) {
      row[p] = Factor(problem_.a_type, a(i, first + p),
                      plan_.exchanged ? plan_.y_planes : plan_.x_planes, pass);
      panel[p * kPanel] =
          Factor(problem_.b_type, b(first + p, j),
                 plan_.exchanged ? plan_.x_planes : plan_.y_planes, pass);
      row_exponents[p] = Exponent(row[p], Least(problem_.a_type));
      panel_exponents[p * kPanel] =
          Exponent(panel[p * kPanel], Least(problem_.b_type));
    }
    sums[0] = held;
    AddPlainly(adder_, {row.data(), row_exponents.data(), steps},
               {panel.data(), panel_exponents.data(), kPanel}, instructions,
               {sums.data(), 1, kPanel});
    return sums[0];
  }

  const Problem& problem_;
  const Plan& plan_;
  const Adder adder_;
};

const char* const kFloating[] = {"bf16",
                                 "f16",
                                 "f16-f16",
                                 "f32",
                                 "tf32",
                                 "tf32-fast",
                                 "e4m3",
                                 "e5m2-e4m3",
                                 "e4m3-fast",
                                 "e5m2-fast",
                                 "e4m3-e5m2",
                                 "e5m2",
                                 "e4m3-f16",
                                 "e5m2-e4m3-f16",
                                 "sparse-bf16",
                                 "f16-sparse-f16",
                                 "tf32-sparse",
                                 "sparse-tf32-fast",
                                 "sparse-e4m3",
                                 "e4m3-sparse-e5m2-fast",
                                 "sparse-e5m2-f16",
                                 "bf16-s4",
                                 "u4-bf16",
                                 "f16-u4",
                                 "s4-f16",
                                 "s8-bf16",
                                 "f16-s8",
                                 "bf16-e4m3",
                                 "e4m3-f16-f32"};

// What is multiplied of an operand whose lines are `rows` or columns.
Element Kept(const jit::MatrixLayout& layout, const Element& element) {
  if (!layout.composite()) return element;
  return [=](int64_t row, int64_t column) -> double {
    const bool rows = layout.order == Order::kRowMajor;
    const int64_t line = rows ? row : column, k = rows ? column : row;
    const double value = element(row, column);
    if (!layout.sparse) {
      return LessZeroPoint(layout.quantization, value, line, k);
    }
    return IsStored(layout.type, line, k) ? value : 0;
  };
}

// Numbers whose sums depend on the order in which they are added.
Element Random(DataType type, int seed, int64_t rows, int64_t columns) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> power(-3, 3);
  // Integers must not all be about zero.
  const bool integer = type == DataType::kS8 || jit::BitsOf(type) == 4;
  const int raised = integer ? 2 : 0;
  auto values = std::make_shared<std::vector<double>>();
  for (int64_t i = 0; i < rows * columns; ++i) {
    const float value = std::ldexp(normal(engine), power(engine) + raised);
    char bytes[4] = {};
    PutElement(type, value, bytes, 0);
    double stored;
    Load(type, Reading::kExact, bytes, 0, 1, &stored);
    values->push_back(stored);
  }
  return [=](int64_t i, int64_t j) { return (*values)[i * columns + j]; };
}

void ExpectSumsOfThePlan(const Problem& problem, const Plan& plan, int seed) {
  const Element a = Random(problem.a_type, seed, problem.m, problem.k);
  const Element b = Random(problem.b_type, seed + 1, problem.k, problem.n);
  const std::vector<float> found =
      Multiply(problem, plan, Bytes(problem.a(), a), Bytes(problem.b(), b));
  const ByElement by_element(problem, plan);
  const Element kept_a = Kept(problem.a(), a), kept_b = Kept(problem.b(), b);
  for (int64_t i = 0; i < problem.m; ++i) {
    for (int64_t j = 0; j < problem.n; ++j) {
      ASSERT_EQ(std::bit_cast<uint32_t>(found[i * problem.n + j]),
                std::bit_cast<uint32_t>(by_element.Sum(kept_a, kept_b, i, j)))
          << jit::DebugString(problem) << " " << plan.splits << " parts at "
          << i << ", " << j;
    }
  }
}

Problem InF32(const std::string& arithmetic, int64_t m, int64_t n, int64_t k) {
  Problem problem = ProblemOf(arithmetic, m, n, k);
  problem.c_type = problem.d_type = DataType::kF32;
  return problem;
}

TEST(HopperSumsTest, AreThoseThatAnH200Confirmed) {
  for (const Vector& vector : ReadVectors(GEMMD_TEST_VECTORS)) {
    Problem problem = InF32(vector.arithmetic, 1, 1, 0);
    problem.k = vector.a.size() / jit::BytesOf(problem.a_type);
    problem.b_order = Order::kColumnMajor;
    problem.invariant = true;  // Not split.
    std::string a = vector.a, b = vector.b;
    a.resize(problem.a().device_bytes());
    b.resize(problem.b().device_bytes());
    const float found =
        Multiply(problem, jit::ChoosePlan(problem, {}), a, b).at(0);
    EXPECT_EQ(std::bit_cast<uint32_t>(found), vector.sum) << vector.arithmetic;
  }
}

TEST(HopperSumsTest, EveryArithmeticAndOrderGivesThoseOfItsInstructions) {
  for (const char* name : kFloating) {
    for (int orders = 0; orders < 4; ++orders) {
      Problem problem = InF32(name, 3, 35, 300);
      problem.a_order = Order(orders & 1);
      problem.b_order = Order(orders >> 1);
      problem.invariant = true;
      if (!jit::Validate(problem).ok()) continue;  // Sparse lines run along k.
      const Plan plan = jit::ChoosePlan(problem, {});
      ASSERT_EQ(plan.splits, 1);
      ExpectSumsOfThePlan(problem, plan, orders);
    }
  }
}

TEST(HopperSumsTest, PartsOfKAreSummedApartAndAddedInOrder) {
  for (const char* name : kFloating) {
    const Problem problem = InF32(name, 2, 3, 5000);
    Plan plan = jit::ChoosePlan(problem, {});
    // Others are through sooner, and not all are worth a reduction.
    if (problem.sparse == jit::Sparse::kNone && !problem.mixed()) {
      ASSERT_GT(plan.splits, 1) << name;
    }
    ExpectSumsOfThePlan(problem, plan, 1);
    plan.splits = 3;
    ExpectSumsOfThePlan(problem, plan, 2);
  }
}

TEST(HopperSumsTest, ScaledSumsOfBlocksAreAddedWithOneRounding) {
  for (const bool splits : {false, true}) {
    Problem problem = InF32("e4m3-e5m2", 3, 300, splits ? 5000 : 300);
    problem.epilogue.a_scale = problem.epilogue.b_scale = jit::Extent::kBlock;
    problem.invariant = !splits;
    const Plan plan = jit::ChoosePlan(problem, {});
    ASSERT_EQ(plan.splits > 1, splits);
    ExpectSumsOfThePlan(problem, plan, 5);
  }
}

Problem Quantized(const std::string& name, int64_t m, int64_t n, int64_t k,
                  jit::Quantization quantization) {
  Problem problem = InF32(name, m, n, k);
  problem.b_order = Order::kColumnMajor;
  problem.quantization = quantization;
  return problem;
}

TEST(HopperSumsTest, SumsOfGroupsAreAddedWithOneRounding) {
  for (const char* name : {"bf16-s4", "u4-bf16", "f16-u4", "s4-f16", "bf16-s8",
                           "s8-f16", "e4m3-bf16", "f16-e4m3"}) {
    const Problem plain = InF32(name, 1, 1, 1);
    const DataType weights =
        plain.weights_are_b() ? plain.b_type : plain.a_type;
    for (const int32_t group : {32, 64, 128, jit::kWholeLine}) {
      // The last stage has one group of 32, half of one, or two.
      for (const int64_t k : {1, 31, 33, 257, 330, 1024, 4500}) {
        const Problem problem =
            Quantized(name, 2, k < 1000 ? 35 : 5, k,
                      {group, jit::BitsOf(weights) == 4 && k != 33});
        ASSERT_TRUE(jit::Validate(problem).ok()) << jit::Validate(problem);
        Plan plan = jit::ChoosePlan(problem, {});
        ASSERT_EQ(plan.family.sum, jit::Summation::kGroupScaled);
        ExpectSumsOfThePlan(problem, plan, 7);
        if (k < 4500) continue;
        plan.splits = 3;
        ExpectSumsOfThePlan(problem, plan, 8);
      }
    }
  }
}

// Stage s is consumer s % 4's, whose sums are added up in ascending order.
TEST(HopperSumsTest, ThoseOfInterleavedConsumersAreAddedInOrder) {
  for (const int32_t group : {0, 32, 64, 128, jit::kWholeLine}) {
    for (const int64_t k : {1025, 1300, 4500}) {
      const Problem problem = Quantized("bf16-s4", 2, 300, k, {group, false});
      const auto plans = jit::RankPlans(problem, {}, 1000);
      const auto plan = std::ranges::find_if(plans, [](const Plan& plan) {
        return plan.config.schedule == jit::Schedule::kInterleaved &&
               plan.config.consumers == 4;
      });
      ASSERT_NE(plan, plans.end());
      ASSERT_EQ(plan->splits, 4);
      ExpectSumsOfThePlan(problem, *plan, 9);
    }
  }
}

TEST(HopperSumsTest, ThoseOfAClusterAreAddedInOrder) {
  for (const char* arithmetic : {"bf16", "e4m3", "tf32"}) {
    for (const int64_t k : {1025, 4500}) {
      const Problem problem = InF32(arithmetic, 3, 40, k);
      const auto plans = jit::RankPlans(problem, {}, 10000);
      const auto plan = std::ranges::find_if(
          plans, [](const Plan& plan) { return plan.config.cluster == 8; });
      ASSERT_NE(plan, plans.end());
      ASSERT_EQ(plan->splits, 8);
      ExpectSumsOfThePlan(problem, *plan, 9);
    }
  }
}

TEST(HopperSumsTest, ABatchOfWeightsHasScalesOfItsOwn) {
  constexpr int64_t kCount = 3;
  for (const bool broadcast : {false, true}) {
    Problem one = Quantized("bf16-u4", 2, 5, 100, {32, true});
    one.invariant = true;
    Problem all = one;
    all.batch = kCount;
    all.b_broadcast = broadcast;
    const std::string a = Bytes(all.a(), Random(DataType::kBf16, 1, 2, 100));
    std::string b = Bytes(all.b(), Random(DataType::kU4, 2, 100, 5));
    // Other scales in every matrix.
    const int64_t a_bytes = one.a().device_bytes();
    const int64_t b_bytes = one.b().device_bytes();
    for (int64_t i = 0; i < std::ssize(b) / one.b().pitch_bytes(); ++i) {
      const float scale = 0.3f + static_cast<float>(i);
      std::memcpy(b.data() + i * one.b().pitch_bytes() + one.b().values_bytes(),
                  &scale, sizeof scale);
    }
    std::string d(all.d().device_bytes(), '\0');
    Gemm(all, jit::ChoosePlan(all, {}),
         {.a = a.data(), .b = b.data(), .d = d.data()});
    const int64_t d_bytes = one.d().device_bytes();
    for (int64_t i = 0; i < kCount; ++i) {
      std::string alone(d_bytes, '\0');
      Gemm(one, jit::ChoosePlan(one, {}),
           {.a = a.data() + i * a_bytes,
            .b = b.data() + (broadcast ? 0 : i * b_bytes),
            .d = alone.data()});
      EXPECT_EQ(d.substr(i * d_bytes, d_bytes), alone) << i;
    }
  }
}

// Aligned as one, it would cost the small products their last bits.
TEST(HopperSumsTest, ASubnormalOfE4m3IsNoneOfWhatItIsWidenedTo) {
  const Problem problem = Quantized("bf16-e4m3", 1, 1, 5, {});
  const std::vector<float> found =
      Multiply(problem, jit::ChoosePlan(problem, {}),
               Bytes(problem.a(),
                     [](int64_t, int64_t k) { return k == 0 ? 1 : 0x1p-24; }),
               Bytes(problem.b(), Constant(0x1p-9)));
  EXPECT_EQ(found[0], 0x1p-9f + 0x1p-31f);
}

TEST(HopperSumsTest, WhatIsNoNumberAmongWeightsIsTheTensorCoresNan) {
  for (const char* name : {"bf16-e4m3", "f16-e4m3"}) {
    for (const int32_t group : {0, 32, 128}) {
      const Problem problem = Quantized(name, 1, 2, 40, {group, false});
      const std::vector<float> found =
          Multiply(problem, jit::ChoosePlan(problem, {}),
                   Bytes(problem.a(), Constant(1)),
                   Bytes(problem.b(), [](int64_t k, int64_t j) {
                     return k == 35 && j == 0 ? NAN : 0.5;
                   }));
      EXPECT_EQ(std::bit_cast<uint32_t>(found[0]), 0x7fffffff);
      EXPECT_TRUE(std::isfinite(found[1]));
    }
  }
}

TEST(HopperSumsTest, BlocksAndThreadsDoNotShow) {
  // More than one block of the result and more than one thread's share.
  Problem problem = InF32("bf16", 515, 600, 700);
  problem.invariant = true;
  const Plan plan = jit::ChoosePlan(problem, {});
  const Element a = Random(problem.a_type, 1, problem.m, problem.k);
  const Element b = Random(problem.b_type, 2, problem.k, problem.n);
  const std::vector<float> found =
      Multiply(problem, plan, Bytes(problem.a(), a), Bytes(problem.b(), b));
  const ByElement by_element(problem, plan);
  for (const int64_t i : {0, 63, 64, 511, 512, 514}) {
    for (const int64_t j : {0, 31, 32, 511, 512, 599}) {
      EXPECT_EQ(found[i * problem.n + j], by_element.Sum(a, b, i, j))
          << i << ", " << j;
    }
  }
}

TEST(HopperSumsTest, ExchangedPlansGiveTheSameBits) {
  for (const char* name : {"f32", "e5m2-e4m3"}) {
    const Problem problem = InF32(name, 4, 5, 200);
    for (const Plan& plan : jit::RankPlans(problem, {}, 64)) {
      if (plan.splits == 1) ExpectSumsOfThePlan(problem, plan, 3);
    }
  }
}

TEST(HopperSumsTest, NanIsTheTensorCores) {
  const Problem problem = InF32("bf16", 1, 1, 2);
  const std::vector<float> found = Multiply(
      problem, jit::ChoosePlan(problem, {}), Bytes(problem.a(), Constant(-NAN)),
      Bytes(problem.b(), Constant(1)));
  EXPECT_EQ(std::bit_cast<uint32_t>(found[0]), 0x7fffffff);
}

TEST(HopperSumsTest, AnInfiniteFactorOfF32MeetsTermsThatAreZero) {
  Problem problem = InF32("f32", 1, 1, 1);
  const auto product = [&](double a, double b) {
    return Multiply(problem, jit::ChoosePlan(problem, {}),
                    Bytes(problem.a(), Constant(a)),
                    Bytes(problem.b(), Constant(b)))[0];
  };
  EXPECT_TRUE(std::isnan(product(INFINITY, 1)));
  EXPECT_EQ(product(INFINITY, 1.2345678f), INFINITY);
  EXPECT_EQ(product(3.4028235e38f, 1), 3.4028235e38f);
}

TEST(HopperSumsTest, OnlyKnowsFloatingSumsByTheTensorCore) {
  for (const auto& [name, known] : {std::pair{"bf16", true},
                                    {"f32", true},
                                    {"e5m2", true},
                                    {"s8", false},
                                    {"b1-xor", false},
                                    {"e4m3-f16", true},
                                    {"bf16-u4", true},
                                    {"s8-f16", true}}) {
    const Problem problem = ProblemOf(name, 5, 6, 7);
    EXPECT_EQ(HopperSums::Knows(jit::ChoosePlan(problem, {})), known) << name;
  }
}

}  // namespace
}  // namespace gemmd::host
