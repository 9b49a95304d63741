#include "service/host/epilogue.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/service/host/product.h"

namespace gemmd::host {
namespace {

using jit::Activation;
using jit::DataType;
using jit::Extent;
using jit::Order;
using jit::Problem;

// A B is 4 everywhere.
const Values kFour = {.a = Constant(2), .b = Constant(2), .c = Constant(10)};

Problem One(DataType output = DataType::kF32) {
  Problem problem = ProblemOf("bf16", 3, 5, 1);
  problem.c_type = problem.d_type = output;
  return problem;
}

TEST(EpilogueTest, StepsComeInTheOrderOfTheContract) {
  for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
    Problem problem = One();
    problem.d_order = order;
    problem.alpha = 0.5f;
    problem.beta = -1;
    problem.epilogue = {.bias = Extent::kColumn,
                        .a_scale = Extent::kRow,
                        .b_scale = Extent::kColumn,
                        .d_scale = true,
                        .activation = Activation::kRelu,
                        .writes_auxiliary = true,
                        .measures_amax = true};
    Values values = kFour;
    values.a_scale = [](int64_t, int64_t i) { return i + 1; };
    values.b_scale = [](int64_t, int64_t j) { return j; };
    values.bias = [](int64_t, int64_t j) { return 100 * j - 200; };
    values.d_scale = Constant(0.25);
    const Product product(problem, values);
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 5; ++j) {
        const double x = 0.5 * 4 * (i + 1) * j - 10 + 100 * j - 200;
        EXPECT_EQ(product.auxiliary(i, j), x);
        EXPECT_EQ(product.d(i, j), 0.25 * std::max(x, 0.0));
      }
    }
    EXPECT_EQ(product.amax(), 0.5 * 4 * 3 * 4 - 10 + 400 - 200);
  }
}

TEST(EpilogueTest, ABiasMayBelongToRowsAndAScaleToAll) {
  Problem problem = One();
  problem.epilogue = {.bias = Extent::kRow,
                      .a_scale = Extent::kTensor,
                      .b_scale = Extent::kTensor};
  Values values = kFour;
  values.bias = [](int64_t, int64_t i) { return 10 * i; };
  values.a_scale = Constant(3);
  values.b_scale = Constant(-1);
  EXPECT_EQ(Product(problem, values).d(2, 4), -12 + 20);
}

TEST(EpilogueTest, ActivationsAreTheirFormulas) {
  const auto activate = [](Activation activation, double x) {
    Problem problem = ProblemOf("f32", 1, 1, 1);
    problem.epilogue.activation = activation;
    return Product(problem, {.a = Constant(x), .b = Constant(1)}).d(0, 0);
  };
  for (const double x : {-30.0, -3.0, -0.5, 0.0, 0.25, 1.0, 20.0}) {
    const double gelu = x / 2 * (1 + std::erf(x / std::sqrt(2)));
    const double tanh =
        x / 2 *
        (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    EXPECT_NEAR(activate(Activation::kGeluErf, x), gelu, 1e-7 * (1 + gelu));
    EXPECT_NEAR(activate(Activation::kGeluTanh, x), tanh, 1e-7 * (1 + tanh));
    EXPECT_NEAR(activate(Activation::kSilu, x), x / (1 + std::exp(-x)),
                1e-7 * (1 + std::abs(x)));
    EXPECT_EQ(activate(Activation::kRelu, x), std::max(x, 0.0));
  }
  for (const Activation activation :
       {Activation::kRelu, Activation::kGeluErf, Activation::kGeluTanh,
        Activation::kSilu}) {
    EXPECT_TRUE(std::isnan(activate(activation, NAN)));
    EXPECT_EQ(activate(activation, INFINITY), INFINITY);
    EXPECT_EQ(activate(activation, -INFINITY), 0);
  }
}

TEST(EpilogueTest, AmaxOfANanIsTheGpusNan) {
  Problem problem = One();
  problem.epilogue.measures_amax = true;
  Values values = kFour;
  values.a = [](int64_t i, int64_t) { return i == 1 ? NAN : 1000.0; };
  const auto amax = static_cast<float>(Product(problem, values).amax());
  EXPECT_EQ(std::bit_cast<uint32_t>(amax), 0x7fffffff);
}

TEST(EpilogueTest, NarrowResultsRoundToNearestEvenAndSaturate) {
  const auto stored = [](DataType type, double value) {
    Problem problem = ProblemOf("f32", 1, 1, 1);
    problem.d_type = type;
    return Product(problem, {.a = Constant(value), .b = Constant(1)}).d(0, 0);
  };
  EXPECT_EQ(stored(DataType::kE4m3, 17), 16);
  EXPECT_EQ(stored(DataType::kE4m3, 19), 20);
  EXPECT_EQ(stored(DataType::kE4m3, -1e9), -448);
  EXPECT_EQ(stored(DataType::kE4m3, INFINITY), 448);
  EXPECT_TRUE(std::isnan(stored(DataType::kE4m3, NAN)));
  EXPECT_EQ(stored(DataType::kE5m2, 9), 8);
  EXPECT_EQ(stored(DataType::kE5m2, 1e9), 57344);

  const auto scaled = [](DataType type, float alpha) {
    Problem problem = ProblemOf("s8", 1, 1, 1);
    problem.d_type = type;
    problem.alpha = alpha;
    return Product(problem, {.a = Constant(5), .b = Constant(1)}).d(0, 0);
  };
  EXPECT_EQ(scaled(DataType::kS8, 0.5f), 2);
  EXPECT_EQ(scaled(DataType::kS8, 0.3f), 2);
  EXPECT_EQ(scaled(DataType::kS8, 0.7f), 4);  // 3.5 to even.
  EXPECT_EQ(scaled(DataType::kS8, 1e9f), 127);
  EXPECT_EQ(scaled(DataType::kS8, -1e9f), -128);
  EXPECT_EQ(scaled(DataType::kU8, -1), 0);
  EXPECT_EQ(scaled(DataType::kU8, 1e9f), 255);
  EXPECT_EQ(scaled(DataType::kU8, NAN), 0);
  EXPECT_EQ(scaled(DataType::kF32, 0.5f), 2.5);
}

TEST(EpilogueTest, CMayBeF32) {
  Problem problem = One(DataType::kBf16);
  problem.c_type = DataType::kF32;
  problem.beta = 1;
  Values values = kFour;
  values.c = Constant(252 + 0x1p-10);
  // 256 and a bit is nearest to 256; a bf16 C would have been 252.
  EXPECT_EQ(Product(problem, values).d(1, 1), 256);
  values.c = Constant(253 + 0x1p-10);  // 257 and a bit rounds up.
  EXPECT_EQ(Product(problem, values).d(1, 1), 258);
}

TEST(EpilogueTest, WithoutDepthNoScaleIsReadAndCAndBiasRemain) {
  Problem problem = One();
  problem.k = 0;
  problem.alpha = INFINITY;
  problem.beta = 2;
  problem.epilogue = {.bias = Extent::kColumn, .a_scale = Extent::kRow};
  Values values = kFour;
  values.a_scale = Constant(NAN);
  values.bias = Constant(1);
  EXPECT_EQ(Product(problem, values).d(0, 0), 21);
}

}  // namespace
}  // namespace gemmd::host
