#include "service/host/sums.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <random>
#include <string>
#include <thread>

#include "tests/service/host/product.h"

namespace gemmd::host {
namespace {

using jit::Arithmetic;
using jit::DataType;
using jit::Extent;
using jit::Order;
using jit::Problem;

Element Integers(int seed, int least, int most) {
  auto engine = std::make_shared<std::mt19937>(seed);
  return [=](int64_t, int64_t) {
    return std::uniform_int_distribution<int>(least, most)(*engine);
  };
}

int Least(DataType type) {
  const bool is_unsigned =
      type == DataType::kU8 || type == DataType::kU4 || type == DataType::kB1;
  return is_unsigned ? 0 : -1;
}

// Integers, the same whatever the arithmetic, the orders and the blocks.
TEST(SumsTest, IntegersAreExactInEveryArithmeticAndOrder) {
  for (const Arithmetic& arithmetic : jit::Arithmetics()) {
    for (int orders = 0; orders < 8; ++orders) {
      const bool sparse = arithmetic.sparse != jit::Sparse::kNone;
      Problem problem =
          ProblemOf(Name(arithmetic), 13, 11, sparse ? 148 : 147);
      problem.a_order = Order(orders & 1);
      problem.b_order = Order(orders >> 1 & 1);
      problem.d_order = Order(orders >> 2);
      if (!jit::Validate(problem).ok()) continue;  // Sparse lines run along k.
      if (problem.accumulator != DataType::kS32) {
        problem.d_type = DataType::kF32;
      }
      const Product product(problem,
                            {.a = Integers(1, Least(arithmetic.a), 1),
                             .b = Integers(2, Least(arithmetic.b), 1)});
      for (int i = 0; i < problem.m; ++i) {
        for (int j = 0; j < problem.n; ++j) {
          double want = 0;
          for (int p = 0; p < problem.k; ++p) {
            const double a = product.a(i, p), b = product.b(p, j);
            want += arithmetic.bit_operation == jit::BitOperation::kXor ? a != b
                                                                        : a * b;
          }
          ASSERT_EQ(product.d(i, j), want)
              << Name(arithmetic) << " " << i << ", " << j;
        }
      }
    }
  }
}

TEST(SumsTest, SlicesOfSeveralThreadsMeetWithoutAGap) {
  for (int orders = 0; orders < 4; ++orders) {
    Problem problem = ProblemOf("bf16", 201, 190, 2100);
    problem.d_type = DataType::kF32;
    problem.a_order = Order(orders & 1);
    problem.b_order = Order(orders >> 1);
    const auto a = [](int64_t i, int64_t p) { return (i + 3 * p) % 5 - 2; };
    const auto b = [](int64_t p, int64_t j) { return (7 * j + p) % 3 - 1; };
    const Product product(problem, {.a = a, .b = b});
    for (int64_t i = 0; i < problem.m; ++i) {
      for (int64_t j = i % 7; j < problem.n; j += 7) {
        int64_t want = 0;
        for (int64_t p = 0; p < problem.k; ++p) want += a(i, p) * b(p, j);
        ASSERT_EQ(product.d(i, j), want) << i << ", " << j;
      }
    }
  }
}

// A thread that looked for more to do would take a core from the daemon.
TEST(SumsTest, NoThreadSpinsAfterAProduct) {
  const auto cpu = [] { return std::clock() * 1000 / CLOCKS_PER_SEC; };
  const Problem problem = ProblemOf("bf16", 256, 256, 1024);
  const Product product(problem, {.a = Constant(1), .b = Constant(1)});
  const auto before = cpu();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(cpu() - before, 20) << "ms of CPU time while nothing is asked";
}

// 2^17 products of 2^14 are 2^31, one more than s32 holds.
TEST(SumsTest, IntegersWrapOrClampAtTheEndsOfS32) {
  constexpr int64_t kK = 1 << 17;
  const Values minimums = {.a = Constant(-128), .b = Constant(-128)};
  EXPECT_EQ(Product(ProblemOf("s8", 1, 2, kK), minimums).d(0, 1), -0x1p31);
  EXPECT_EQ(Product(ProblemOf("s8-clamp", 1, 2, kK), minimums).d(0, 1),
            0x1p31 - 1);
  // Once at the end, a sum goes on from there.
  const Values turns = {.a = Constant(-128), .b = [](int64_t p, int64_t) {
                          return p < kK ? -128 : 127;
                        }};
  EXPECT_EQ(Product(ProblemOf("s8-clamp", 1, 1, kK + 32), turns).d(0, 0),
            0x1p31 - 1 - 32 * 128 * 127);
  EXPECT_EQ(Product(ProblemOf("s8", 1, 1, kK + 32), turns).d(0, 0),
            -0x1p31 - 32 * 128 * 127 + 0x1p32);
  const Values bytes = {.a = Constant(255), .b = Constant(255)};
  EXPECT_EQ(Product(ProblemOf("u8-clamp", 1, 1, 33100), bytes).d(0, 0),
            0x1p31 - 1);
}

TEST(SumsTest, AddingCWrapsOrClampsToo) {
  Problem problem = ProblemOf("s8", 1, 1, 1);
  problem.beta = 1;
  const Values values = {
      .a = Constant(2), .b = Constant(3), .c = Constant(0x1p31 - 1)};
  EXPECT_EQ(Product(problem, values).d(0, 0), -0x1p31 + 5);
  problem.clamps = true;
  EXPECT_EQ(Product(problem, values).d(0, 0), 0x1p31 - 1);
}

TEST(SumsTest, SumsInF16AreRoundedAsTheyGrow) {
  // From 2048 on, f16 counts in twos: adding single ones 16 at a time works,
  // and overflow on the way stays.
  Problem problem = ProblemOf("f16-f16", 1, 1, 4096);
  EXPECT_EQ(Product(problem, {.a = Constant(1), .b = Constant(1)}).d(0, 0),
            4096);
  const Values cancels = {.a = Constant(256), .b = [](int64_t p, int64_t) {
                            return p < 2048 ? 256 : -256;
                          }};
  EXPECT_TRUE(std::isinf(Product(problem, cancels).d(0, 0)));
  problem.accumulator = DataType::kF32;
  EXPECT_EQ(Product(problem, cancels).d(0, 0), 0);
}

TEST(SumsTest, F32CountsInFullOrAsTf32) {
  // 1 + 2^-11 is half-way between two tf32, 1 + 2^-10 is one.
  const auto square = [](const std::string& name, double value) {
    return Product(ProblemOf(name, 1, 1, 1),
                   {.a = Constant(value), .b = Constant(1)})
        .d(0, 0);
  };
  EXPECT_EQ(square("f32", 1 + 0x1p-23), 1 + 0x1p-23);
  EXPECT_EQ(square("tf32", 1 + 0x1p-11 + 0x1p-23), 1 + 0x1p-10);
  EXPECT_EQ(square("tf32", 1 + 0x1p-11 - 0x1p-23), 1);
  EXPECT_EQ(square("tf32-fast", 1 + 0x1p-10 - 0x1p-23), 1);
  EXPECT_EQ(square("tf32-fast", -1 - 0x1p-10 + 0x1p-23), -1);
  EXPECT_TRUE(std::isnan(square("tf32", NAN)));
  EXPECT_TRUE(std::isinf(square("tf32", INFINITY)));
}

TEST(SumsTest, BlockScalesBelongToOneHundredAndTwentyEightSteps) {
  Problem problem = ProblemOf("e4m3", 2, 130, 257);
  problem.d_type = DataType::kF32;
  problem.epilogue.a_scale = problem.epilogue.b_scale = Extent::kBlock;
  const Product product(
      problem,
      {.a = Constant(1),
       .b = Constant(1),
       .a_scale = [](int64_t i, int64_t block) { return i + block * 8; },
       .b_scale = [](int64_t block, int64_t j) { return 1 + block + 4 * j; }});
  EXPECT_EQ(product.d(1, 127), 128 * 1 * 1 + 128 * 9 * 2 + 1 * 17 * 3);
  EXPECT_EQ(product.d(0, 128), 128 * 0 * 5 + 128 * 8 * 6 + 1 * 16 * 7);
}

// Orders in which lines of quantized weights run along k.
Problem Quantized(const std::string& name, int64_t m, int64_t n, int64_t k,
                  jit::Quantization quantization) {
  Problem problem = ProblemOf(name, m, n, k);
  problem.d_type = DataType::kF32;
  problem.b_order = Order::kColumnMajor;
  problem.quantization = quantization;
  return problem;
}

TEST(SumsTest, QuantizedWeightsCountForWhatTheyStandFor) {
  for (const char* name : {"bf16-u4", "s4-f16", "f16-s8", "e4m3-bf16"}) {
    for (const int32_t group : {32, 128, jit::kWholeLine}) {
      const Problem base = ProblemOf(name, 3, 5, 1100);
      const bool b = base.weights_are_b();
      const bool nibbles = jit::BitsOf(b ? base.b_type : base.a_type) == 4;
      const Problem problem = Quantized(name, 3, 5, 1100, {group, nibbles});
      const auto weight = [](int64_t line, int64_t k) {
        return (3 * line + k) % 8;
      };
      const auto other = [](int64_t line, int64_t k) {
        return (5 * line + 7 * k) % 9 - 4;
      };
      Values values = {.a = weight,
                       .b = [&](int64_t k, int64_t j) { return other(j, k); }};
      if (b) {
        values = {.a = other,
                  .b = [&](int64_t k, int64_t j) { return weight(j, k); }};
      }
      const Product product(problem, values);
      for (int64_t i = 0; i < problem.m; ++i) {
        for (int64_t j = 0; j < problem.n; ++j) {
          const int64_t line = b ? j : i;
          double want = 0;
          for (int64_t k = 0; k < problem.k; ++k) {
            const double scale = SomeScale(line, k / group);
            want +=
                scale * other(b ? i : j, k) *
                LessZeroPoint(problem.quantization, weight(line, k), line, k);
          }
          EXPECT_FLOAT_EQ(product.d(i, j), want) << name << " by " << group;
        }
      }
    }
  }
}

TEST(SumsTest, NanAmongWeightsIsNanInItsColumn) {
  for (const int32_t group : {0, 32}) {
    const Problem problem = Quantized("bf16-e4m3", 2, 3, 40, {group, false});
    const Product product(problem,
                          {.a = Constant(1), .b = [](int64_t k, int64_t j) {
                             return k == 35 && j == 1 ? NAN : 1;
                           }});
    EXPECT_TRUE(std::isnan(product.d(1, 1)));
    EXPECT_FALSE(std::isnan(product.d(1, 0)));
    EXPECT_FALSE(std::isnan(product.d(0, 2)));
  }
}

// Terms of many magnitudes, which cancel: what is left is what was rounded.
TEST(SumsTest, ARowOfAnInvariantProductDependsOnNoOther) {
  constexpr int64_t kK = 1000, kHalf = kK / 2;
  const auto some = [](int64_t i, int64_t j) {
    return 1 + static_cast<double>((i * 7919 + j * 104729) % 65537) / 65537;
  };
  const Values values = {
      .a = [&](int64_t i, int64_t k) { return some(i, k % kHalf); },
      .b =
          [&](int64_t k, int64_t j) {
            const double b = std::ldexp(some(k % kHalf, j), k % kHalf * 7 % 40);
            return k < kHalf ? b : -b;
          }};
  for (int orders = 0; orders < 8; ++orders) {
    for (const int64_t n : {3, 40}) {
      Problem problem = ProblemOf("f32", 300, n, kK);
      problem.invariant = true;
      problem.a_order = Order(orders & 1);
      problem.b_order = Order(orders >> 1 & 1);
      problem.d_order = Order(orders >> 2);
      const Product all(problem, values);
      for (const int64_t m : {1, 2, 7, 65}) {
        problem.m = m;
        const Product some_rows(problem, values);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            ASSERT_EQ(some_rows.d(i, j), all.d(i, j))
                << m << " rows: " << i << ", " << j;
          }
        }
      }
    }
  }
}

TEST(SumsTest, EveryMatrixOfABatchHasItsProduct) {
  Problem problem = ProblemOf("bf16", 3, 4, 5);
  problem.batch = 6;
  problem.b_broadcast = true;
  int call = 0;
  // Elements of A are drawn one matrix after the other.
  const Product product(
      problem, {.a = [&](int64_t, int64_t) { return 1 + call++ / (3 * 5); },
                .b = Constant(2)});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(product.d(2, 3, i), 10 * (i + 1));
}

}  // namespace
}  // namespace gemmd::host
