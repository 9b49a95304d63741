#include "clients/gemmctl/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/quantized_shape.h"
#include "jit/base/status.h"
#include "service/host/fp8.h"

namespace gemmd::gemmctl {
namespace {

int64_t GroupLength(int64_t length, int32_t group) {
  return group == 0 ? std::max<int64_t>(length, 1) : group;
}

float Load(const std::string& bytes, int64_t at) {
  float value;
  std::memcpy(&value, bytes.data() + 4 * at, 4);
  return value;
}
void Store(float value, std::string& bytes, int64_t at) {
  std::memcpy(bytes.data() + 4 * at, &value, 4);
}

float ElementOf(const Matrix& matrix, int64_t at) {
  const char byte = matrix.bytes[at];
  if (matrix.type == v1::DATA_TYPE_E4M3)
    return host::FromFp8<host::kE4m3>(byte);
  if (matrix.type == v1::DATA_TYPE_U4) return static_cast<float>(byte & 15);
  return static_cast<float>(static_cast<signed char>(byte));
}

// A scale, and a zero point if it was asked for.
struct Scale {
  float scale;
  float zero;
};
Scale ScaleOf(absl::Span<const float> group, const Ends& ends,
              bool zero_points) {
  float low = 0, high = 0, magnitude = 0;
  for (const float x : group) {
    low = std::min(low, x);
    high = std::max(high, x);
    magnitude = std::max(magnitude, std::fabs(x));
  }
  const float span = ends.most - ends.least;
  // Before the difference: that may leave F32.
  float scale = zero_points ? high / span - low / span : magnitude / ends.most;
  if (scale == 0) scale = 1;
  if (!zero_points) low = 0;
  const float zero = std::nearbyint(ends.least - low / scale);
  return {scale, std::min(std::max(zero, ends.least), ends.most)};
}

absl::StatusOr<Matrix> FloatsOf(Matrix matrix, v1::DataType type,
                                bool zero_points) {
  ASSIGN_OR_RETURN(matrix, Widen(std::move(matrix)));
  for (size_t i = 0; i < matrix.bytes.size() / 4; ++i) {
    const float value = Load(matrix.bytes, static_cast<int64_t>(i));
    if (!std::isfinite(value)) {
      return absl::InvalidArgumentError(
          "it has infinities or NaN; allowed: finite numbers");
    }
    if (value < 0 && type == v1::DATA_TYPE_U4 && !zero_points) {
      return absl::InvalidArgumentError(
          "it has negative elements, which u4 holds with zero points alone");
    }
  }
  return matrix;
}

}  // namespace

absl::StatusOr<Parts> Quantize(Matrix matrix, v1::DataType type, int32_t group,
                               bool zero_points, v1::Order order) {
  ASSIGN_OR_RETURN(const Ends ends, EndsOf(type));
  RETURN_IF_ERROR(CheckZeros(type, zero_points));
  ASSIGN_OR_RETURN(matrix, FloatsOf(std::move(matrix), type, zero_points));
  matrix = Reorder(std::move(matrix), order);
  const int64_t length = LengthOf(matrix, order);
  const int64_t step = GroupLength(length, group);
  const int64_t groups = CountGroups(length, group);
  Parts parts = {WithLength(matrix, order, length, type),
                 WithLength(matrix, order, groups, v1::DATA_TYPE_F32),
                 {}};
  if (zero_points) {
    parts.zeros = WithLength(matrix, order, groups, v1::DATA_TYPE_S8);
  }
  if (matrix.bytes.empty()) return parts;
  std::vector<float> values;
  for (int64_t line = 0; line < LinesOf(matrix, order); ++line) {
    for (int64_t at = 0; at < length; at += step) {
      values.clear();
      for (int64_t i = at; i < std::min(at + step, length); ++i) {
        values.push_back(Load(matrix.bytes, line * length + i));
      }
      const auto [scale, zero] = ScaleOf(values, ends, zero_points);
      parts.scales.bytes.append(reinterpret_cast<const char*>(&scale), 4);
      if (zero_points) parts.zeros->bytes.push_back(static_cast<char>(zero));
      for (const float value : values) {
        float q = value / scale;
        if (type != v1::DATA_TYPE_E4M3) q = std::nearbyint(q);
        if (zero_points) q += zero;
        q = std::min(std::max(q, ends.least), ends.most);
        parts.elements.bytes.push_back(
            type == v1::DATA_TYPE_E4M3
                ? static_cast<char>(host::ToFp8<host::kE4m3>(q))
                : static_cast<char>(static_cast<int>(q)));
      }
    }
  }
  return parts;
}

absl::StatusOr<Matrix> Dequantize(Parts parts, v1::Order order) {
  ASSIGN_OR_RETURN(const Matrix checked, Join(parts, order));
  const Matrix elements = Reorder(std::move(parts.elements), order);
  const Matrix scales = Reorder(std::move(parts.scales), order);
  const Matrix zeros =
      parts.zeros ? Reorder(*std::move(parts.zeros), order) : Matrix();
  const int64_t length = LengthOf(elements, order);
  const int64_t groups = LengthOf(scales, order);
  const int64_t step = GroupLength(length, checked.quantization->group());
  Matrix floats = WithLength(elements, order, length, v1::DATA_TYPE_F32);
  floats.bytes.resize(4 * elements.bytes.size());
  for (int64_t at = 0; at < std::ssize(elements.bytes); ++at) {
    const int64_t group = at / length * groups + at % length / step;
    double value = ElementOf(elements, at);
    if (parts.zeros) value -= static_cast<signed char>(zeros.bytes[group]);
    value *= Load(scales.bytes, group);
    Store(static_cast<float>(value), floats.bytes, at);
  }
  return floats;
}

}  // namespace gemmd::gemmctl
