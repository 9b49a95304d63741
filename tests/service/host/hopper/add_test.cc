#include "service/host/hopper/add.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "service/host/elements.h"
#include "service/host/hopper/aligned.h"
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

// 344 - 48 + 0.5625 of the last bits of f16: a subnormal sum is aligned as the
// least normal one, so that a sixteenth of a bit is cut off. An H200 gave this.
TEST(AddTest, ASubnormalSumInF16HasTheLeastExponent) {
  const double unit = 0x1p-16;
  EXPECT_EQ(Sum("e5m2-f16", {6 * unit, 8 * unit}, {24 * unit, -1536 * unit},
                344 * 0x1p-24),
            296 * 0x1p-24);
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

TEST(AddTest, EveryFloatingInstructionHasAnAdder) {
  for (const jit::Instruction& instruction : jit::Instructions()) {
    EXPECT_EQ(AdderOf(instruction).has_value(),
              instruction.accumulator != DataType::kS32)
        << jit::Name(instruction);
  }
}

// Factors of one type: what random bytes mean, which is of all sizes, infinite
// or NaN at times, or something tamer.
enum class Kind { kBytes, kFinite, kNormal, kWide, kZeros, kLow };

double Draw(DataType type, Kind kind, std::mt19937& engine) {
  std::normal_distribution<float> normal;
  if (kind == Kind::kBytes || kind == Kind::kFinite) {
    for (;;) {
      const uint32_t bytes = engine();
      double value;
      Load(type,
           type == DataType::kF32 ? Reading::kTruncatedTf32 : Reading::kExact,
           reinterpret_cast<const char*>(&bytes), 0, 1, &value);
      if (kind == Kind::kBytes || std::isfinite(value)) return value;
    }
  }
  const int least = LeastExponent(type);
  double drawn = normal(engine);
  if (kind == Kind::kWide)
    drawn = std::ldexp(drawn, static_cast<int>(engine() % 14) - 7);
  if (kind == Kind::kZeros && engine() % 3 != 0) drawn = 0;
  if (kind == Kind::kLow) {
    drawn = std::ldexp(drawn,
                       std::max(least, -66) - static_cast<int>(engine() % 8));
  }
  const float value = static_cast<float>(drawn);
  char bytes[4];
  Store(type, &value, 1, bytes, 0);
  Load(type, Reading::kNearestTf32, bytes, 0, 1, &drawn);
  return drawn;
}

class Block {
 public:
  Block(DataType type, Kind kind, int64_t lines, int64_t pitch, int seed)
      : pitch_(pitch) {
    std::mt19937 engine(seed);
    values_.Resize(lines * pitch);
    exponents_.Resize(lines * pitch);
    for (int64_t i = 0; i < lines * pitch; ++i) {
      values_.data()[i] = Draw(type, kind, engine);
      exponents_.data()[i] = Exponent(values_.data()[i], LeastExponent(type));
    }
  }
  Factors factors() const {
    return {values_.data(), exponents_.data(), pitch_};
  }

 private:
  const int64_t pitch_;
  Aligned<double> values_;
  Aligned<int16_t> exponents_;
};

using AddSome = void (*)(const Adder&, const Factors&, const Factors&, int,
                         const PanelSums&);

std::vector<double> Sums(AddSome add, const Adder& adder, const Block& a,
                         const Block& b, int64_t rows, int instructions) {
  Aligned<double> sums;
  sums.Resize(rows * kPanel);
  std::fill_n(sums.data(), rows * kPanel, 0.0);
  add(adder, a.factors(), b.factors(), instructions,
      {sums.data(), rows, kPanel});
  return {sums.data(), sums.data() + rows * kPanel};
}

TEST(AddTest, TakesTheBestVectorsUnlessOthersAreToBeUsed) {
  const absl::Span<const Vectors> kinds = KindsOfVectors();
  ASSERT_FALSE(kinds.empty());
#if defined(__x86_64__)
  // What the processor has beyond that, the kinds below have, too.
  const std::vector<std::string> all = {"AVX3", "AVX2", "SSE4", "static"};
  ASSERT_LE(kinds.size(), all.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_EQ(kinds[i].name, all[all.size() - kinds.size() + i]);
  }
  std::ifstream file("/proc/cpuinfo");
  const std::string facts(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(kinds.front().name == "AVX3",
            absl::StrContains(facts, " avx512bw "));
#endif
  static int calls;
  calls = 0;
  const Vectors counting = {
      "counting", [](const Adder&, const Factors&, const Factors&, int,
                     const PanelSums&) { ++calls; }};
  UseVectors(counting);
  Add({}, {}, {}, 1, {});
  UseVectors(kinds.front());
  EXPECT_EQ(calls, 1);
}

// The kinds of vectors that this processor has, one after the other.
class EachKind : public testing::TestWithParam<std::string> {};

TEST_P(EachKind, VectorsAddAsOneElementAfterTheOther) {
  const Vectors* vectors = nullptr;
  for (const Vectors& kind : KindsOfVectors()) {
    if (kind.name == GetParam()) vectors = &kind;
  }
  if (vectors == nullptr) {
    GTEST_SKIP() << "this processor has no " << GetParam();
  }
  constexpr int64_t kRows = 9;
  constexpr int kInstructions = 5;
  for (const jit::Instruction& instruction : jit::Instructions()) {
    const std::optional<Adder> adder = AdderOf(instruction);
    if (!adder) continue;
    for (const Kind kind : {Kind::kBytes, Kind::kFinite, Kind::kNormal,
                            Kind::kWide, Kind::kZeros, Kind::kLow}) {
      const int64_t depth = kInstructions * adder->products;
      const Block a(instruction.x, kind, kRows, depth, 1);
      const Block b(instruction.y, kind, depth, kPanel, 2);
      const auto plain = Sums(AddPlainly, *adder, a, b, kRows, kInstructions);
      const auto found = Sums(vectors->add, *adder, a, b, kRows, kInstructions);
      for (size_t i = 0; i < plain.size(); ++i) {
        if (std::isnan(plain[i]) && std::isnan(found[i])) continue;
        ASSERT_EQ(std::bit_cast<uint64_t>(found[i]),
                  std::bit_cast<uint64_t>(plain[i]))
            << jit::Name(instruction) << ", kind " << int(kind) << ": "
            << found[i] << ", not " << plain[i];
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Add, EachKind,
                         testing::Values("AVX3", "AVX2", "SSE4", "static"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace gemmd::host
