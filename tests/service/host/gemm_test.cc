#include "service/host/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "tests/service/matrix.h"

namespace gemmd::host {
namespace {

using jit::DataType;
using jit::MatrixLayout;
using jit::Order;
using jit::Problem;
using testing::Fill;
using testing::Get;
using testing::Offset;

int64_t PitchElements(const MatrixLayout& layout) {
  return layout.pitch_bytes() / jit::BytesOf(layout.type);
}

float At(const MatrixLayout& layout, const std::string& bytes, int64_t row,
         int64_t column) {
  return Get(layout.type, bytes.data(),
             Offset(layout, PitchElements(layout), row, column));
}

// A problem with its operands and the result that Gemm gave.
class Case {
 public:
  Case(const Problem& problem, std::function<float(int64_t, int64_t)> a,
       std::function<float(int64_t, int64_t)> b,
       std::function<float(int64_t, int64_t)> c)
      : problem_(problem),
        a_(Fill(problem.a(), PitchElements(problem.a()), a)),
        b_(Fill(problem.b(), PitchElements(problem.b()), b)),
        c_(Fill(problem.c(), PitchElements(problem.c()), c)),
        d_(problem.d().device_bytes(), '\x55') {
    // Operands that are not read are not even there.
    Gemm(problem, {problem.reads_ab() ? a_.data() : nullptr,
                   problem.reads_ab() ? b_.data() : nullptr,
                   problem.reads_c() ? c_.data() : nullptr, d_.data()});
  }

  float d(int64_t i, int64_t j) const { return At(problem_.d(), d_, i, j); }

  // The contract, written down element by element.
  float Want(int64_t i, int64_t j) const {
    float result = 0;
    if (problem_.reads_ab()) {
      long double sum = 0;
      for (int64_t p = 0; p < problem_.k; ++p) {
        sum += static_cast<long double>(At(problem_.a(), a_, i, p)) *
               At(problem_.b(), b_, p, j);
      }
      result = problem_.alpha * static_cast<float>(static_cast<double>(sum));
    }
    if (problem_.reads_c()) {
      result += problem_.beta * At(problem_.c(), c_, i, j);
    }
    char rounded[4];
    testing::Put(problem_.d_type, result, rounded, 0);
    return Get(problem_.d_type, rounded, 0);
  }

  bool PaddingIsUntouched() const {
    const MatrixLayout layout = problem_.d();
    for (int64_t line = 0; line < layout.lines(); ++line) {
      for (int64_t at = layout.width_bytes(); at < layout.pitch_bytes(); ++at) {
        if (d_[line * layout.pitch_bytes() + at] != '\x55') return false;
      }
    }
    return true;
  }

 private:
  const Problem problem_;
  const std::string a_, b_, c_;
  std::string d_;
};

std::function<float(int64_t, int64_t)> Random(int seed) {
  auto engine = std::make_shared<std::mt19937>(seed);
  return [engine](int64_t, int64_t) {
    return std::normal_distribution<float>()(*engine);
  };
}

std::function<float(int64_t, int64_t)> Constant(float value) {
  return [value](int64_t, int64_t) { return value; };
}

using Orders = std::tuple<DataType, DataType, Order, Order, Order>;
class GemmTest : public ::testing::TestWithParam<Orders> {
 protected:
  Problem Make(int64_t m, int64_t n, int64_t k) const {
    const auto [input, output, a, b, d] = GetParam();
    return {.m = m,
            .n = n,
            .k = k,
            .a_type = input,
            .b_type = input,
            .c_type = output,
            .d_type = output,
            .a_order = a,
            .b_order = b,
            .d_order = d};
  }
};

// Sums in another order differ in the last bit of f64, which can tip the one
// rounding to D: allow that one step, on few elements.
void ExpectClose(const Case& result, const Problem& problem) {
  for (int64_t i = 0; i < problem.m; ++i) {
    for (int64_t j = 0; j < problem.n; ++j) {
      const float want = result.Want(i, j);
      const float step = problem.d_type == DataType::kF32   ? 0x1p-23f
                         : problem.d_type == DataType::kF16 ? 0x1p-10f
                                                            : 0x1p-7f;
      ASSERT_NEAR(result.d(i, j), want, step * std::abs(want))
          << i << ", " << j;
    }
  }
}

TEST_P(GemmTest, RandomDataWithAlphaAndBeta) {
  for (const auto& [m, n, k] : {std::tuple{1, 1, 1},
                                {7, 1, 5},
                                {1, 9, 65},
                                {33, 65, 17},
                                {130, 67, 129}}) {
    Problem problem = Make(m, n, k);
    problem.alpha = 1.25f;
    problem.beta = -0.5f;
    const Case result(problem, Random(1), Random(2), Random(3));
    ExpectClose(result, problem);
    EXPECT_TRUE(result.PaddingIsUntouched());
  }
}

TEST_P(GemmTest, IntegersAreExactAcrossBlocks) {
  // More than one block in every dimension.
  const Problem problem = Make(515, 513, 1027);
  const Case result(
      problem, [](int64_t i, int64_t p) { return (i * 3 + p) % 5 - 2; },
      [](int64_t p, int64_t j) { return (p * 7 + j) % 3 - 1; }, Constant(NAN));
  for (int64_t i : {0, 1, 511, 512, 514}) {
    for (int64_t j : {0, 1, 511, 512}) {
      ASSERT_EQ(result.d(i, j), result.Want(i, j)) << i << ", " << j;
    }
  }
}

TEST_P(GemmTest, BetaZeroNeverReadsC) {
  const Case result(Make(5, 3, 4), Constant(1), Constant(2), Constant(NAN));
  EXPECT_EQ(result.d(4, 2), 8);
}

TEST_P(GemmTest, AlphaZeroOrNoDepthGivesBetaTimesC) {
  Problem problem = Make(5, 3, 4);
  problem.alpha = 0;
  problem.beta = 3;
  EXPECT_EQ(Case(problem, Constant(NAN), Constant(NAN), Constant(2)).d(4, 2),
            6);
  problem = Make(5, 3, 0);
  problem.alpha = INFINITY;
  problem.beta = 3;
  EXPECT_EQ(Case(problem, Constant(0), Constant(0), Constant(2)).d(4, 2), 6);
  problem.beta = 0;
  EXPECT_EQ(Case(problem, Constant(0), Constant(0), Constant(2)).d(4, 2), 0);
}

TEST_P(GemmTest, ZeroTimesNanIsNan) {
  for (const auto& [m, n] : {std::pair{1, 1}, {1, 6}, {6, 1}, {6, 6}}) {
    const Problem problem = Make(m, n, 4);
    const auto nan_in_row_0 = [](int64_t i, int64_t p) {
      return i == 0 && p == 2 ? NAN : 0.0f;
    };
    const Case left(problem, nan_in_row_0, Constant(0), Constant(0));
    EXPECT_TRUE(std::isnan(left.d(0, n - 1)));
    EXPECT_EQ(std::isnan(left.d(m - 1, 0)), m == 1);
    const auto nan_in_column_0 = [](int64_t p, int64_t j) {
      return j == 0 && p == 2 ? NAN : 0.0f;
    };
    const Case right(problem, Constant(0), nan_in_column_0, Constant(0));
    EXPECT_TRUE(std::isnan(right.d(m - 1, 0)));
    EXPECT_EQ(std::isnan(right.d(0, n - 1)), n == 1);
  }
}

TEST_P(GemmTest, OverflowIsInfinityAndInfinitiesMeetAsNan) {
  Problem problem = Make(2, 2, 2);
  problem.alpha = 3e38f;
  EXPECT_EQ(Case(problem, Constant(4), Constant(4), Constant(0)).d(1, 1),
            INFINITY);
  problem = Make(2, 2, 2);
  const auto both = [](int64_t p, int64_t) { return p == 0 ? 1.0f : -1.0f; };
  EXPECT_TRUE(
      std::isnan(Case(problem, Constant(INFINITY), both, Constant(0)).d(1, 1)));
}

INSTANTIATE_TEST_SUITE_P(
    TypesAndOrders, GemmTest,
    ::testing::Combine(
        ::testing::Values(DataType::kBf16, DataType::kF16),
        ::testing::Values(DataType::kBf16, DataType::kF16, DataType::kF32),
        ::testing::Values(Order::kRowMajor, Order::kColumnMajor),
        ::testing::Values(Order::kRowMajor, Order::kColumnMajor),
        ::testing::Values(Order::kRowMajor, Order::kColumnMajor)));

TEST(GemmRounding, TheSumIsRoundedToF32BeforeAlpha) {
  // 2^24 + 1 is not an f32: it becomes 2^24 before alpha doubles it.
  Problem problem = {.m = 1,
                     .n = 1,
                     .k = 2,
                     .a_type = DataType::kBf16,
                     .b_type = DataType::kBf16,
                     .c_type = DataType::kF32,
                     .d_type = DataType::kF32,
                     .alpha = 2};
  const Case result(
      problem, [](int64_t, int64_t p) { return p == 0 ? 0x1p24f : 1.0f; },
      Constant(1), Constant(0));
  EXPECT_EQ(result.d(0, 0), 0x1p25f);
}

}  // namespace
}  // namespace gemmd::host
