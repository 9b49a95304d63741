#include "service/host/hopper/add.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "service/host/elements.h"
#include "tests/service/host/hopper/vectors.h"
#include "tests/service/host/product.h"

namespace gemmd::host {
namespace {

using jit::DataType;
using jit::Problem;

Adder AdderNamed(const std::string& arithmetic) {
  return AdderOf(
             jit::InstructionOf(ProblemOf(arithmetic, 1, 1, 1).arithmetic()))
      .value();
}

// The sum of products of `a` and `b`, whole instructions of them, in one
// element of a panel; the others stay zero.
double Sum(const Adder& adder, std::vector<double> a, std::vector<double> b,
           int least_a, int least_b, double old = 0) {
  a.resize((a.size() + adder.products - 1) / adder.products * adder.products);
  b.resize(a.size());
  const int column = 17;
  std::vector<int16_t> a_exponents, b_exponents(a.size() * kPanel, kNoExponent);
  std::vector<double> panel(a.size() * kPanel), sums(kPanel);
  for (size_t p = 0; p < a.size(); ++p) {
    a_exponents.push_back(Exponent(a[p], least_a));
    b_exponents[p * kPanel + column] = Exponent(b[p], least_b);
    panel[p * kPanel + column] = b[p];
  }
  sums[column] = old;
  AddPlainly(adder, {a.data(), a_exponents.data(), 0},
             {panel.data(), b_exponents.data(), kPanel},
             static_cast<int>(a.size()) / adder.products,
             {sums.data(), 1, kPanel});
  return sums[column];
}

double Sum(const std::string& arithmetic, std::vector<double> a,
           std::vector<double> b, double old = 0) {
  const Problem problem = ProblemOf(arithmetic, 1, 1, 1);
  return Sum(AdderNamed(arithmetic), std::move(a), std::move(b),
             LeastExponent(problem.a_type), LeastExponent(problem.b_type), old);
}

std::vector<double> Numbers(DataType type, const std::string& bytes) {
  std::vector<double> numbers(bytes.size() / jit::BytesOf(type));
  Load(type, Reading::kExact, bytes.data(), 0, numbers.size(), numbers.data());
  return numbers;
}

// Sums of fp8 are promoted every 128 k, unless fast.
double SumOf(const Vector& vector) {
  const Problem problem = ProblemOf(vector.arithmetic, 1, 1, 1);
  const std::vector<double> a = Numbers(problem.a_type, vector.a);
  const std::vector<double> b = Numbers(problem.b_type, vector.b);
  const bool promotes = jit::IsFp8(problem.a_type) &&
                        problem.precision == jit::Precision::kDefault;
  const size_t depth = promotes ? 128 : a.size();
  float total = 0;
  for (size_t k = 0; k < a.size(); k += depth) {
    const size_t end = std::min(a.size(), k + depth);
    total += static_cast<float>(Sum(vector.arithmetic,
                                    {a.begin() + k, a.begin() + end},
                                    {b.begin() + k, b.begin() + end}));
  }
  return total;
}

TEST(AddTest, SumsAreThoseThatAnH200Confirmed) {
  const std::vector<Vector> vectors = ReadVectors(GEMMD_TEST_VECTORS);
  ASSERT_GT(vectors.size(), 100u);
  for (const Vector& vector : vectors) {
    EXPECT_EQ(std::bit_cast<uint32_t>(static_cast<float>(SumOf(vector))),
              vector.sum)
        << vector.arithmetic << " " << SumOf(vector);
  }
}

TEST(AddTest, ProductsAreCutOffTwentyFiveBitsBelowTheGreatest) {
  EXPECT_EQ(Sum("bf16", {1, 1}, {1, 0x1p-23}), 1 + 0x1p-23);
  // Two of 2^-25 make a bit of the sum; a smaller one is gone before that.
  EXPECT_EQ(
      Sum("bf16", {1, 1, 1, 1, 1}, {1, 0x1p-25, 0x1p-25, 0x1p-25, 0x1p-25}),
      1 + 0x1p-23);
  EXPECT_EQ(Sum("bf16", {1, 1, 1}, {1, 0x1.fp-26, 0x1.fp-26}), 1);
  // Toward zero, whatever the sign.
  EXPECT_EQ(Sum("bf16", {1, 1}, {1, -0x1p-26}), 1);
  EXPECT_EQ(Sum("bf16", {1, 1}, {1, -0x1p-25}), 1 - 0x1p-24);
  EXPECT_EQ(Sum("e4m3-fast", {16, 0x1p-3}, {16, 0x1p-3}), 256);
}

TEST(AddTest, TheOldSumIsAlignedToo) {
  EXPECT_EQ(Sum("bf16", {1}, {1}, 0x1p25), 0x1p25);
  EXPECT_EQ(Sum("bf16", {1}, {-1}, 0x1p25), 0x1p25 - 2);
  EXPECT_EQ(Sum("tf32", {0x1p30}, {1}, 1), 0x1p30);
}

TEST(AddTest, ExponentsOfProductsAreNotNormalised) {
  // 1.5 * 1.5 counts as one of exponent 0, not 1.
  std::vector<double> a(9, 1), b(9, 0x1p-25);
  a[0] = b[0] = 1.5;
  EXPECT_EQ(Sum("bf16", a, b), 2.25 + 0x1p-22);
  // A subnormal factor has the least exponent of its type.
  EXPECT_EQ(Sum("f16", {0x1p-24, 0x1p-24, 0x1p-24}, {1, 0x1p-24, 0x1p-24}),
            0x1p-24);
}

TEST(AddTest, SumsInF16AreRoundedToNearestEven) {
  EXPECT_EQ(Sum("f16-f16", {2048, 1}, {1, 1}), 2048);
  EXPECT_EQ(Sum("f16-f16", {2048, 3}, {1, 1}), 2052);
  EXPECT_EQ(Sum("f16-f16", {65504, 15}, {1, 1}), 65504);
  EXPECT_EQ(Sum("f16-f16", {65504, 16}, {1, 1}), INFINITY);
  EXPECT_EQ(Sum("f16-f16", {0x1p-14}, {0x1.8p-10}), 0x1p-23);
}

TEST(AddTest, InfinityStaysAndMeetsItsOppositeAsNan) {
  EXPECT_EQ(Sum("bf16", {INFINITY, 1}, {2, 1}), INFINITY);
  EXPECT_EQ(Sum("bf16", {1, 1}, {-1, 1}, -INFINITY), -INFINITY);
  EXPECT_TRUE(std::isnan(Sum("bf16", {INFINITY, 1}, {0, 1})));
  EXPECT_TRUE(std::isnan(Sum("bf16", {1}, {INFINITY}, -INFINITY)));
  EXPECT_TRUE(std::isnan(Sum("f16-f16", {NAN}, {0})));
  EXPECT_EQ(Sum("bf16", {0x1p127}, {2}), INFINITY);
}

TEST(AddTest, ZeroIsPositive) {
  EXPECT_FALSE(std::signbit(Sum("bf16", {-1, 1}, {0, -0.0})));
  EXPECT_FALSE(std::signbit(Sum("bf16", {-0x1p-80}, {0x1p-80})));
  EXPECT_FALSE(std::signbit(Sum("f16-f16", {-0x1p-20}, {0x1p-20})));
}

TEST(AddTest, OnlyWhatIsKnownHasAnAdder) {
  for (const jit::Instruction& instruction : jit::Instructions()) {
    const bool fp8_in_f16 =
        jit::IsFp8(instruction.x) && instruction.accumulator == DataType::kF16;
    EXPECT_EQ(AdderOf(instruction).has_value(),
              instruction.accumulator != DataType::kS32 && !fp8_in_f16)
        << jit::Name(instruction);
  }
}

}  // namespace
}  // namespace gemmd::host
