#include "service/host/epilogue.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "service/host/elements.h"
#include "service/host/numbers.h"

namespace gemmd::host {
namespace {

using jit::Activation;
using jit::DataType;
using jit::Extent;
using jit::MatrixLayout;
using jit::Order;

// Element `i` of a row of f32.
float Value(const char* row, int64_t i) {
  float value;
  std::memcpy(&value, row + 4 * i, sizeof value);
  return value;
}

// In f64, so that the one rounding to f32 is all that is lost. Infinities give
// the limits.
float Activate(Activation activation, float value) {
  const double x = value;
  switch (activation) {
    case Activation::kNone:
      return value;
    case Activation::kRelu:
      return value < 0 ? 0.0f : value;
    case Activation::kGeluErf:
      if (std::isinf(x)) return x < 0 ? -0.0f : value;
      return static_cast<float>(x / 2 * std::erfc(-x / std::numbers::sqrt2));
    case Activation::kGeluTanh: {
      if (std::isinf(x)) return x < 0 ? -0.0f : value;
      const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
      const double inner = scale * (x + 0.044715 * x * x * x);
      // (1 + tanh(y)) / 2 without cancellation.
      return static_cast<float>(x / (1 + std::exp(-2 * inner)));
    }
    case Activation::kSilu:
      if (std::isinf(x)) return x < 0 ? -0.0f : value;
      return static_cast<float>(x / (1 + std::exp(-x)));
  }
  return value;
}

// NaN is greater than every number.
void Raise(float& greatest, float value) {
  const float magnitude = std::abs(value);
  if (std::isnan(magnitude) || magnitude > greatest) {
    greatest = WithNanOfGpu(magnitude);
  }
}

}  // namespace

Epilogue::Epilogue(const jit::Problem& problem, const GemmOperands& operands)
    : problem_(problem), operands_(operands) {
  if (problem.epilogue.measures_amax) *operands.amax = 0;
}

void Epilogue::Write(int64_t batch, const Block& block, const double* sums) {
  const MatrixLayout layout = problem_.d();
  const MatrixLayout c_layout = problem_.c();
  const bool by_rows = layout.order == Order::kRowMajor;
  const Range lines = block.lines(layout.order);
  const Range along = block.along(layout.order);
  const int64_t line_stride = by_rows ? block.columns.count : 1;
  const int64_t stride = by_rows ? 1 : block.columns.count;
  const char* const c = Matrix(c_layout, operands_.c, batch);
  char* const d = Matrix(layout, operands_.d, batch);
  char* const auxiliary = Matrix(layout, operands_.auxiliary, batch);
  for (int64_t i = 0; i < lines.count; ++i) {
    const int64_t line = lines.first + i;
    const Span span = {.row = by_rows ? line : along.first,
                       .column = by_rows ? along.first : line,
                       .row_step = by_rows ? 0 : 1,
                       .count = along.count};
    const double* const from =
        sums == nullptr ? nullptr : sums + i * line_stride;
    const char* const c_line =
        problem_.reads_c() ? Line(c_layout, c, line) : nullptr;
    char* const d_line = Line(layout, d, line);
    if (layout.type == DataType::kS32) {
      WriteIntegers(span, from, stride, c_line, d_line, along.first);
    } else {
      WriteFloats(
          span, from, stride, c_line, d_line,
          auxiliary == nullptr ? nullptr : Line(layout, auxiliary, line),
          along.first);
    }
  }
}

void Epilogue::Combine(const Span& span, const double* sums, int64_t stride,
                       const char* c, int64_t first) {
  const jit::Epilogue& epilogue = problem_.epilogue;
  const auto factor = [&](Extent extent, const char* values, int64_t i) {
    if (extent == Extent::kNone || extent == Extent::kBlock) return 1.0f;
    const int64_t row = span.row + i * span.row_step;
    const int64_t column = span.column + i * (1 - span.row_step);
    return Value(values, extent == Extent::kTensor ? 0
                         : extent == Extent::kRow  ? row
                                                   : column);
  };
  line_.assign(span.count, 0.0f);
  if (sums != nullptr) {
    for (int64_t i = 0; i < span.count; ++i) {
      line_[i] = static_cast<float>(sums[i * stride]);
      line_[i] *= factor(epilogue.a_scale, operands_.a_scale, i) *
                  factor(epilogue.b_scale, operands_.b_scale, i);
      line_[i] *= problem_.alpha;
    }
  }
  if (c != nullptr) {
    c_line_.resize(span.count);
    Load(problem_.c_type, Reading::kExact, c, first, span.count,
         c_line_.data());
    for (int64_t i = 0; i < span.count; ++i) {
      line_[i] += problem_.beta * c_line_[i];
    }
  }
  if (epilogue.bias == Extent::kNone) return;
  const bool of_rows = epilogue.bias == Extent::kRow;
  for (int64_t i = 0; i < span.count; ++i) {
    const int64_t row = span.row + i * span.row_step;
    const int64_t column = span.column + i * (1 - span.row_step);
    line_[i] += Value(operands_.bias, of_rows ? row : column);
  }
}

void Epilogue::WriteFloats(const Span& span, const double* sums, int64_t stride,
                           const char* c, char* d, char* auxiliary,
                           int64_t first) {
  const jit::Epilogue& epilogue = problem_.epilogue;
  Combine(span, sums, stride, c, first);
  if (auxiliary != nullptr) {
    Store(problem_.d_type, line_.data(), span.count, auxiliary, first);
  }
  for (float& value : line_) {
    value = Activate(epilogue.activation, value);
    if (epilogue.measures_amax) Raise(*operands_.amax, value);
    if (epilogue.d_scale) value *= Value(operands_.d_scale, 0);
  }
  Store(problem_.d_type, line_.data(), span.count, d, first);
}

void Epilogue::WriteIntegers(const Span& span, const double* sums,
                             int64_t stride, const char* c, char* d,
                             int64_t first) {
  using Limits = std::numeric_limits<int32_t>;
  for (int64_t i = 0; i < span.count; ++i) {
    int64_t value = 0;
    if (sums != nullptr) value = static_cast<int64_t>(sums[i * stride]);
    if (c != nullptr) {
      int32_t added;
      std::memcpy(&added, c + 4 * (first + i), sizeof added);
      value += added;
    }
    if (problem_.clamps) {
      value = std::clamp<int64_t>(value, Limits::min(), Limits::max());
    }
    const int32_t wrapped = static_cast<int32_t>(static_cast<uint32_t>(value));
    std::memcpy(d + 4 * (first + i), &wrapped, sizeof wrapped);
  }
}

}  // namespace gemmd::host
