// What one request asks: D = alpha * A B + beta * C, where A is m x k, B is
// k x n, C and D are m x n. Transposition of a stored matrix is expressed by
// its order. Plain data, thread-compatible.
#ifndef GEMMD_JIT_PROBLEM_PROBLEM_H_
#define GEMMD_JIT_PROBLEM_PROBLEM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "jit/problem/arithmetic.h"
#include "jit/problem/data_type.h"
#include "jit/problem/layout.h"

namespace gemmd::jit {

// Largest m, n, k and leading dimension: kernels hold coordinates in 32 bits,
// rounded up to whole tiles of at most 256 lines.
inline constexpr int64_t kMaxDimension = (int64_t{1} << 31) - 256;

enum class Activation : uint8_t { kNone, kRelu, kGeluErf, kGeluTanh, kSilu };

// "none", "relu", "gelu", "gelu_tanh", "silu".
absl::string_view Name(Activation activation);

// What one value of a bias or a scale belongs to.
enum class Extent : uint8_t {
  kNone,    // There is none.
  kTensor,  // One value.
  kRow,     // One value a row of D (m of them).
  kColumn,  // One value a column of D (n of them).
  kBlock,   // Of A, 1 x 128 elements (m x k/128 values, row-major); of B,
            // 128 x 128 (k/128 x n/128 values, row-major). fp8 only.
};

// "none", "tensor", "row", "column", "block".
absl::string_view Name(Extent extent);

// Lines of A and B that share one value of a block scale.
inline constexpr int64_t kScaleBlock = 128;

// D = d_scale * activation(alpha * scales * A B + beta * C + bias), in f32 (in
// s32 where D is s32), rounded once to D's type.
struct Epilogue {
  Extent bias = Extent::kNone;     // kRow or kColumn; f32 values.
  Extent a_scale = Extent::kNone;  // kTensor, kRow or kBlock; f32 values.
  Extent b_scale = Extent::kNone;  // kTensor, kColumn or kBlock; f32 values.
  bool d_scale = false;            // One f32 value, before rounding.
  Activation activation = Activation::kNone;
  bool writes_auxiliary = false;  // What the activation is applied to, as D.
  bool measures_amax = false;     // Greatest |D| before d_scale.

  friend bool operator==(const Epilogue&, const Epilogue&) = default;
};

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
  DataType accumulator = DataType::kF32;  // kF32, kF16 or kS32.
  Precision precision = Precision::kDefault;
  bool clamps = false;  // Integer sums clamp at the ends of s32; else wrap.
  BitOperation bit_operation = BitOperation::kAnd;
  Sparse sparse = Sparse::kNone;  // Its operand's lines run along k.
  Quantization quantization;      // Of the weights, whose lines run along k.
  // A row of D depends on nothing but its row of A, B and the scalars.
  bool invariant = false;
  Epilogue epilogue;
  // Independent products; operands lie one behind the other. An operand that
  // is broadcast is there once. Scales and bias are those of every product.
  int64_t batch = 1;
  bool a_broadcast = false;
  bool b_broadcast = false;

  Arithmetic arithmetic() const {
    return {a_type, b_type,        accumulator, precision,
            clamps, bit_operation, sparse};
  }

  // Types of A, B and what follows from them; C and D in the default type.
  void SetArithmetic(const Arithmetic& arithmetic);

  // Whether one operand, the weights, is widened to the type of the other.
  bool mixed() const { return IsMixed(a_type, b_type); }
  bool weights_are_b() const { return WeightsAreB(a_type, b_type); }

  MatrixLayout a() const;
  MatrixLayout b() const;
  MatrixLayout c() const { return {c_type, d_order, m, n, batch}; }
  MatrixLayout d() const { return {d_type, d_order, m, n, batch}; }
  // The values of the epilogue: f32, row-major, one row unless by block; empty
  // where there are none.
  MatrixLayout bias() const;
  MatrixLayout a_scale() const;
  MatrixLayout b_scale() const;
  MatrixLayout d_scale() const;
  MatrixLayout amax() const;

  // False for products that are beta * C by definition (alpha or k is 0).
  bool reads_ab() const { return alpha != 0.0f && k != 0; }
  bool reads_c() const { return beta != 0.0f; }
  bool writes() const { return m != 0 && n != 0 && batch != 0; }

  friend bool operator==(const Problem&, const Problem&) = default;
};

// `problem`, or where its products are one product in memory, that one: those
// of a batch that shares B, each a run of lines of A and of D and without
// values of its own, or shares A in the same way. Sums and memory are the same.
Problem Folded(Problem problem);

// OK, or INVALID_ARGUMENT naming the part of `field`, how the caller calls it,
// that elements of `weights` cannot be quantized by. For what is quantized.
absl::Status Validate(const Quantization& quantization, DataType weights,
                      absl::string_view field);

// OK, or INVALID_ARGUMENT / UNIMPLEMENTED naming the field, its value and
// what is allowed. Everything below the service assumes a valid problem.
absl::Status Validate(const Problem& problem);

// "bf16 TN 8192x8192x8192 -> f32": for logs and tables. The letters are
// those of column-major BLAS for a column-major D; a row-major D is the
// exchanged product.
std::string DebugString(const Problem& problem);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_PROBLEM_H_
