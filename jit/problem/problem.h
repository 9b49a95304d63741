// What one request asks: D = alpha * A B + beta * C, where A is m x k, B is
// k x n, C and D are m x n. Transposition of a stored matrix is expressed by
// its order. Plain data, thread-compatible.
#ifndef GEMMD_JIT_PROBLEM_PROBLEM_H_
#define GEMMD_JIT_PROBLEM_PROBLEM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "jit/problem/data_type.h"
#include "jit/problem/layout.h"

namespace gemmd::jit {

// Largest m, n, k and leading dimension: kernels hold coordinates in 32 bits.
inline constexpr int64_t kMaxDimension = (int64_t{1} << 31) - 1;

struct Problem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  DataType a_type = DataType::kBf16;
  DataType b_type = DataType::kBf16;
  DataType c_type = DataType::kBf16;
  DataType d_type = DataType::kBf16;
  Order a_order = Order::kRowMajor;
  Order b_order = Order::kRowMajor;
  Order d_order = Order::kRowMajor;  // C has the order of D.
  float alpha = 1.0f;
  float beta = 0.0f;

  MatrixLayout a() const { return {a_type, a_order, m, k}; }
  MatrixLayout b() const { return {b_type, b_order, k, n}; }
  MatrixLayout c() const { return {c_type, d_order, m, n}; }
  MatrixLayout d() const { return {d_type, d_order, m, n}; }

  // False for products that are beta * C by definition (alpha or k is 0).
  bool reads_ab() const { return alpha != 0.0f && k != 0; }
  bool reads_c() const { return beta != 0.0f; }
  bool writes() const { return m != 0 && n != 0; }
};

// OK, or INVALID_ARGUMENT / UNIMPLEMENTED naming the field, its value and
// what is allowed. Everything below the service assumes a valid problem.
absl::Status Validate(const Problem& problem);

// "bf16 TN 8192x8192x8192 -> f32": for logs and tables. The letters are
// those of column-major BLAS for a column-major D; a row-major D is the
// exchanged product.
std::string DebugString(const Problem& problem);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_PROBLEM_H_
