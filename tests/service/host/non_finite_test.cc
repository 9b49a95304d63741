#include "service/host/non_finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/service/host/product.h"

namespace gemmd::host {
namespace {

using jit::Order;
using jit::Problem;
using jit::Sparse;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The sum of the products that are made, one by one.
double Sum(const Product& product, const Problem& problem, int64_t i,
           int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < problem.k; ++k) {
    const bool a = problem.sparse == Sparse::kA;
    if (IsStored(problem.a_type, a ? i : j, k)) {
      sum += product.a(i, k) * product.b(k, j);
    }
  }
  return sum;
}

// Some infinities of both signs and a NaN; a stored zero here and there.
Element Wild(bool dense) {
  return [dense](int64_t row, int64_t column) -> double {
    const int64_t at = row * 31 + column * 17;
    if (!dense) return at % 5 == 0 ? 0 : at % 3 - 1.0;
    if (at % 23 == 0) return at % 2 == 0 ? kInfinity : -kInfinity;
    if (at % 41 == 0) return NAN;
    return at % 3;
  };
}

TEST(NonFiniteTest, CountWhereSomethingIsStoredAndNowhereElse) {
  for (const char* name : {"sparse-bf16", "bf16-sparse", "sparse-tf32",
                           "f16-sparse-f16", "sparse-e5m2"}) {
    for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
      Problem problem = ProblemOf(name, 9, 7, 40);
      const bool a = problem.sparse == Sparse::kA;
      (a ? problem.b_order : problem.a_order) = order;
      problem.d_type = jit::DataType::kF32;
      const Product product(problem, {.a = Wild(!a), .b = Wild(a)});
      int finite = 0;
      for (int64_t i = 0; i < problem.m; ++i) {
        for (int64_t j = 0; j < problem.n; ++j) {
          const double want = Sum(product, problem, i, j);
          finite += std::isfinite(want) ? 1 : 0;
          if (std::isnan(want)) {
            EXPECT_TRUE(std::isnan(product.d(i, j))) << name << i << ", " << j;
          } else {
            EXPECT_EQ(product.d(i, j), want) << name << i << ", " << j;
          }
        }
      }
      EXPECT_GT(finite, 0) << "nothing is left to be wrong";
      EXPECT_LT(finite, problem.m * problem.n);
    }
  }
}

TEST(NonFiniteTest, AMatrixOfABatchHasItsOwn) {
  Problem problem = ProblemOf("sparse-bf16", 2, 2, 8);
  problem.batch = 3;
  problem.d_type = jit::DataType::kF32;
  const std::string a = Bytes(problem.a(), Constant(1));
  std::string b = Bytes(problem.b(), Constant(1));
  const float infinity = INFINITY;
  // Element (0, 1) of the second matrix.
  Store(jit::DataType::kBf16, &infinity, 1,
        b.data() + 8 * problem.b().pitch_bytes(), 1);
  std::string d(problem.d().device_bytes(), '\0');
  Gemm(problem, {.a = a.data(), .b = b.data(), .d = d.data()});
  for (int64_t matrix = 0; matrix < 3; ++matrix) {
    for (int64_t i = 0; i < 2; ++i) {
      const auto* line = reinterpret_cast<const float*>(
          d.data() + (2 * matrix + i) * problem.d().pitch_bytes());
      EXPECT_EQ(line[0], 4);
      // Rows 0 and 1 have places 0, 1 and 2, 3 in their first chunks.
      EXPECT_EQ(line[1], matrix == 1 && i == 0 ? INFINITY : 4);
    }
  }
}

}  // namespace
}  // namespace gemmd::host
