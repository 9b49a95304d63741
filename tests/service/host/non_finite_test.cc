#include "service/host/non_finite.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <limits>
#include <string>

#include "jit/plan/planner.h"
#include "service/host/block.h"
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

// Some infinities of both signs and a NaN; a stored zero here and there, and
// fewer of the others.
Element Wild(bool dense) {
  return [dense](int64_t row, int64_t column) -> double {
    const int64_t at = row * 31 + column * 17;
    if (!dense && at % 149 == 7) return at % 2 == 0 ? kInfinity : -kInfinity;
    if (!dense && at % 211 == 7) return NAN;
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

// Steps of k and lines of either operand behind the first block's, and the sums
// of a GPU. A has k along its lines, B across.
TEST(NonFiniteTest, CountInEveryBlock) {
  constexpr int64_t kLast = 1039;
  const float nan = NAN;
  for (const char* name : {"sparse-e4m3", "e4m3-sparse"}) {
    Problem problem = ProblemOf(name, 515, 20, kLast + 1);
    problem.d_type = jit::DataType::kF32;
    const bool of_b = problem.sparse == Sparse::kA;
    const jit::MatrixLayout layout = of_b ? problem.b() : problem.a();
    const std::string sparse =
        Bytes(of_b ? problem.a() : problem.b(), Constant(1));
    std::string dense(layout.device_bytes(), '\x38');  // 1 of e4m3.
    const int64_t last_line = (of_b ? problem.n : problem.m) - 1;
    for (const int64_t line : {int64_t{1}, last_line}) {
      Store(layout.type, &nan, 1,
            Line(layout, dense.data(), of_b ? kLast : line),
            of_b ? line : kLast);
    }
    std::string d(problem.d().device_bytes(), '\0');
    Gemm(problem, jit::ChoosePlan(problem, {}),
         {.a = (of_b ? sparse : dense).data(),
          .b = (of_b ? dense : sparse).data(),
          .d = d.data()});
    for (int64_t i = 0; i < problem.m; ++i) {
      for (int64_t j = 0; j < problem.n; ++j) {
        const int64_t line = of_b ? j : i;
        const bool want = (line == 1 || line == last_line) &&
                          IsStored(layout.type, of_b ? i : j, kLast);
        const float found = F32At(problem.d(), d.data(), i, j);
        // Half of k is stored.
        ASSERT_TRUE(want ? std::isnan(found) : found == (kLast + 1) / 2)
            << name << ": " << found << " at " << i << ", " << j;
      }
    }
  }
}

// The product of a row of ones and a matrix of nothing but NaN, of a batch.
void MultiplyByNan(int64_t n, int64_t k, int64_t batch) {
  Problem problem = ProblemOf("sparse-e4m3", 1, n, k);
  problem.batch = batch;
  problem.d_type = jit::DataType::kF32;
  const std::string a = Bytes(problem.a(), Constant(1));
  const std::string b(problem.b().device_bytes(), '\x7f');
  std::string d(problem.d().device_bytes(), '\0');
  Gemm(problem, {.a = a.data(), .b = b.data(), .d = d.data()});
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      ASSERT_TRUE(std::isnan(
          F32At(problem.d(), d.data() + i * problem.d().pitch_bytes(), 0, j)));
    }
  }
}

int64_t MostKiBHeld() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(NonFiniteTest, TakeNoRoomThatGrowsWithTheirNumber) {
  MultiplyByNan(1024, 1024, 1);
  const int64_t before = MostKiBHeld();
  MultiplyByNan(2048, 2048, 1);
  // The operand has 4 MiB.
  EXPECT_LT(MostKiBHeld() - before, 64 * 1024);
}

// If the elements of all were looked at for each, it would take longer than a
// test may.
TEST(NonFiniteTest, ThoseOfABatchAreNoWorkForItsOtherProducts) {
  MultiplyByNan(32, 4, 40'000);
}

}  // namespace
}  // namespace gemmd::host
