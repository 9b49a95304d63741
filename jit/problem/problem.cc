#include "jit/problem/problem.h"

#include "absl/strings/str_cat.h"

namespace gemmd::jit {
namespace {

MatrixLayout Values(int64_t rows, int64_t columns) {
  return {DataType::kF32, Order::kRowMajor, rows, columns};
}

int64_t Blocks(int64_t elements) {
  return (elements + kScaleBlock - 1) / kScaleBlock;
}

// Values of a scale of an operand whose lines along k number `lines`.
MatrixLayout Scale(Extent extent, int64_t lines) {
  switch (extent) {
    case Extent::kTensor:
      return Values(1, 1);
    case Extent::kRow:
    case Extent::kColumn:
      return Values(1, lines);
    default:
      return Values(0, 0);
  }
}

}  // namespace

absl::string_view Name(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return "none";
    case Activation::kRelu:
      return "relu";
    case Activation::kGeluErf:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu_tanh";
    case Activation::kSilu:
      return "silu";
  }
  return "invalid";
}

absl::string_view Name(Extent extent) {
  switch (extent) {
    case Extent::kNone:
      return "none";
    case Extent::kTensor:
      return "tensor";
    case Extent::kRow:
      return "row";
    case Extent::kColumn:
      return "column";
    case Extent::kBlock:
      return "block";
  }
  return "invalid";
}

void Problem::SetArithmetic(const Arithmetic& arithmetic) {
  a_type = arithmetic.a;
  b_type = arithmetic.b;
  accumulator = arithmetic.accumulator;
  precision = arithmetic.precision;
  clamps = arithmetic.clamps;
  bit_operation = arithmetic.bit_operation;
  sparse = arithmetic.sparse;
  c_type = d_type = DefaultOutput(arithmetic.a, arithmetic.b);
}

MatrixLayout Problem::a() const {
  MatrixLayout layout = {a_type, a_order, m, k, a_broadcast ? 1 : batch};
  layout.sparse = sparse == Sparse::kA;
  if (mixed() && !weights_are_b()) layout.quantization = quantization;
  return layout;
}

MatrixLayout Problem::b() const {
  MatrixLayout layout = {b_type, b_order, k, n, b_broadcast ? 1 : batch};
  layout.sparse = sparse == Sparse::kB;
  if (mixed() && weights_are_b()) layout.quantization = quantization;
  return layout;
}

MatrixLayout Problem::bias() const {
  return Scale(epilogue.bias, epilogue.bias == Extent::kRow ? m : n);
}

MatrixLayout Problem::a_scale() const {
  if (epilogue.a_scale == Extent::kBlock) return Values(m, Blocks(k));
  return Scale(epilogue.a_scale, m);
}

MatrixLayout Problem::b_scale() const {
  if (epilogue.b_scale == Extent::kBlock) return Values(Blocks(k), Blocks(n));
  return Scale(epilogue.b_scale, n);
}

MatrixLayout Problem::d_scale() const {
  return epilogue.d_scale ? Values(1, 1) : Values(0, 0);
}

MatrixLayout Problem::amax() const {
  return epilogue.measures_amax ? Values(1, 1) : Values(0, 0);
}

Problem Folded(Problem problem) {
  const Epilogue& epilogue = problem.epilogue;
  // Whether an operand's lines are those of D, and nothing is by its lines but
  // its elements. Metadata and fragments come in blocks of lines.
  const auto follows = [&](Order order, const MatrixLayout& operand,
                           bool is_weights, Extent lines, Extent scale) {
    return problem.d_order == order && operand.order == order &&
           !operand.sparse && !is_weights && epilogue.bias != lines &&
           scale != lines && scale != Extent::kBlock;
  };
  const bool mixed = problem.mixed(), weights_are_b = problem.weights_are_b();
  int64_t* folded = nullptr;
  if (problem.b_broadcast && !problem.a_broadcast &&
      follows(Order::kRowMajor, problem.a(), mixed && !weights_are_b,
              Extent::kRow, epilogue.a_scale)) {
    folded = &problem.m;
  }
  if (problem.a_broadcast && !problem.b_broadcast &&
      follows(Order::kColumnMajor, problem.b(), mixed && weights_are_b,
              Extent::kColumn, epilogue.b_scale)) {
    folded = &problem.n;
  }
  if (folded == nullptr || *folded * problem.batch > kMaxDimension) {
    return problem;
  }
  *folded *= problem.batch;
  problem.batch = 1;
  problem.a_broadcast = problem.b_broadcast = false;
  return problem;
}

std::string DebugString(const Problem& problem) {
  // A row-major D is the column-major transpose: D^T = B^T A^T.
  const bool row = problem.d_order == Order::kRowMajor;
  const Order first = row ? Opposite(problem.b_order) : problem.a_order;
  const Order second = row ? Opposite(problem.a_order) : problem.b_order;
  const auto letter = [](Order order) {
    return order == Order::kColumnMajor ? "N" : "T";
  };
  const std::string batch =
      problem.batch == 1 ? "" : absl::StrCat(problem.batch, "x");
  return absl::StrCat(Name(problem.arithmetic()), " ", letter(first),
                      letter(second), " ", batch, row ? problem.n : problem.m,
                      "x", row ? problem.m : problem.n, "x", problem.k, " -> ",
                      Name(problem.d_type));
}

}  // namespace gemmd::jit
