#include "clients/gemmctl/convert.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/gemmctl/quantized_shape.h"
#include "clients/gemmctl/sparse.h"
#include "jit/base/status.h"
#include "jit/problem/data_type.h"
#include "proto/convert/problem.h"
#include "service/host/fp8.h"

namespace gemmd::gemmctl {

namespace {

// Of a line of elements that share bytes.
int64_t LineBytes(v1::DataType type, int64_t width) {
  return (width * BitsOf(type) + 7) / 8;
}

struct Lines {
  int64_t count;
  int64_t width;
};

Lines LinesOf(const Matrix& matrix) {
  const bool rows = matrix.order == v1::ORDER_ROW_MAJOR;
  return {matrix.count() * (rows ? matrix.rows : matrix.columns),
          rows ? matrix.columns : matrix.rows};
}

// As the daemon rounds D, but infinity does not become finite: it stays, or is
// NaN where the type has none.
template <host::Fp8 type>
uint8_t ToFp8(float value) {
  if (!std::isinf(value)) return host::ToFp8<type>(value);
  if (type.infinity == 0) return host::ToFp8<type>(NAN);
  return type.infinity | (std::signbit(value) ? 0x80 : 0);
}

// Writes `value` in `type`; false for a type to which nothing is converted.
bool Narrow(float value, v1::DataType type, char* to) {
  uint16_t bits = 0;
  switch (type) {
    case v1::DATA_TYPE_BF16:
      bits = ToBf16(value);
      break;
    case v1::DATA_TYPE_F16:
      bits = ToF16(value);
      break;
    case v1::DATA_TYPE_E4M3:
      bits = ToFp8<host::kE4m3>(value);
      break;
    case v1::DATA_TYPE_E5M2:
      bits = ToFp8<host::kE5m2>(value);
      break;
    default:
      return false;
  }
  std::memcpy(to, &bits, ElementBytes(type));  // Little-endian.
  return true;
}

}  // namespace

absl::StatusOr<v1::DataType> ParseDataType(const std::string& name) {
  std::string allowed;
  for (int i = v1::DataType_MIN + 1; i <= v1::DataType_MAX; ++i) {
    const auto type = static_cast<v1::DataType>(i);
    if (Name(type) == name) return type;
    absl::StrAppend(&allowed, allowed.empty() ? "" : ", ", Name(type));
  }
  return absl::InvalidArgumentError(allowed);
}

absl::StatusOr<v1::Order> ParseOrder(const std::string& name) {
  if (name == "row") return v1::ORDER_ROW_MAJOR;
  if (name == "column") return v1::ORDER_COLUMN_MAJOR;
  return absl::InvalidArgumentError("row, column");
}

std::string Name(v1::DataType type) {
  const absl::StatusOr<jit::DataType> known = convert::ToDataType(type, "type");
  return known.ok() ? std::string(jit::Name(*known)) : v1::DataType_Name(type);
}

std::string Name(v1::Order order) {
  return order == v1::ORDER_COLUMN_MAJOR ? "column" : "row";
}

uint16_t ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (std::isnan(value)) return sign | 0x7e00;
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  // Below the smallest normal, 2^-14, elements are steps of 2^-24; above it,
  // of 2^-10 times their power of two. nearbyint rounds ties to even.
  if (magnitude < 0x1p-14f) {
    return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f));
  }
  int exponent = 0;
  const float fraction = std::frexp(magnitude, &exponent);  // [0.5, 1)
  const int steps = static_cast<int>(std::nearbyint(fraction * 0x1p11f));
  // A carry out of `steps` moves on to the next exponent by itself.
  return sign | static_cast<uint16_t>(((exponent + 13) << 10) + steps);
}

absl::StatusOr<Matrix> Convert(Matrix matrix, v1::DataType type) {
  if (matrix.type == type) return matrix;
  char narrow[4];
  if (matrix.type != v1::DATA_TYPE_F32 || !Narrow(0, type, narrow)) {
    return absl::InvalidArgumentError(
        absl::StrCat("elements are ", Name(matrix.type), ", not ", Name(type),
                     "; f32 is converted, to bf16, f16, e4m3 or e5m2"));
  }
  const size_t item = ElementBytes(type);
  std::string converted(matrix.bytes.size() / 4 * item, '\0');
  for (size_t i = 0; i < matrix.bytes.size() / 4; ++i) {
    float value = 0;
    std::memcpy(&value, matrix.bytes.data() + 4 * i, 4);
    Narrow(value, type, converted.data() + i * item);
  }
  matrix.type = type;
  matrix.bytes = std::move(converted);
  return matrix;
}

float FromF16(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const auto fraction = static_cast<float>(bits & 0x3ff);
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 0x1f) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction + 1024, exponent - 25);
}

absl::StatusOr<Matrix> Widen(Matrix matrix) {
  if (matrix.type == v1::DATA_TYPE_F32) return matrix;
  const bool is_f16 = matrix.type == v1::DATA_TYPE_F16;
  if (!is_f16 && matrix.type != v1::DATA_TYPE_BF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("elements are ", Name(matrix.type),
                     "; allowed where numbers are real: f32, f16, bf16"));
  }
  std::string wide(2 * matrix.bytes.size(), '\0');
  for (size_t i = 0; i < matrix.bytes.size() / 2; ++i) {
    uint16_t bits;
    std::memcpy(&bits, matrix.bytes.data() + 2 * i, 2);
    const float value =
        is_f16 ? FromF16(bits)
               : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    std::memcpy(wide.data() + 4 * i, &value, 4);
  }
  matrix.type = v1::DATA_TYPE_F32;
  matrix.bytes = std::move(wide);
  return matrix;
}

Matrix Reorder(Matrix matrix, v1::Order order) {
  if (matrix.order == order) return matrix;
  CHECK(!matrix.sparse && !matrix.quantization);  // Made of lines.
  const auto [all_lines, width] = LinesOf(matrix);
  const int64_t count = matrix.count();
  const int64_t lines = count == 0 ? 0 : all_lines / count;
  const int64_t item = ElementBytes(matrix.type);
  std::string bytes(matrix.bytes.size(), '\0');
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = i * lines * width;
    for (int64_t line = 0; line < lines; ++line) {
      for (int64_t at = 0; at < width; ++at) {
        std::memcpy(bytes.data() + (start + at * lines + line) * item,
                    matrix.bytes.data() + (start + line * width + at) * item,
                    item);
      }
    }
  }
  matrix.order = order;
  matrix.bytes = std::move(bytes);
  return matrix;
}

std::string Pack(Matrix matrix) {
  const int bits = BitsOf(matrix.type);
  // The lines of a quantized matrix are packed.
  if (bits >= 8 || matrix.quantization) return std::move(matrix.bytes);
  const auto [lines, width] = LinesOf(matrix);
  std::string packed(PackedBytes(matrix), '\0');
  if (packed.empty()) return packed;
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t at = 0; at < width; ++at) {
      const char element = matrix.bytes[line * width + at];
      const int value = bits == 1 ? element != 0 : element & 0xf;
      char& byte =
          packed[line * LineBytes(matrix.type, width) + at * bits / 8];
      byte = static_cast<char>(byte | value << at * bits % 8);
    }
  }
  return packed;
}

Matrix Unpack(Matrix shape, std::string packed) {
  shape.bytes = std::move(packed);
  const int bits = BitsOf(shape.type);
  if (bits >= 8 || shape.quantization) return shape;
  const int sign = shape.type == v1::DATA_TYPE_S4 ? 8 : 0;
  const auto [lines, width] = LinesOf(shape);
  std::string bytes(lines * width, '\0');
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t at = 0; at < width; ++at) {
      const char byte =
          shape.bytes[line * LineBytes(shape.type, width) + at * bits / 8];
      const int value = byte >> at * bits % 8 & ((1 << bits) - 1);
      bytes[line * width + at] = static_cast<char>((value ^ sign) - sign);
    }
  }
  shape.bytes = std::move(bytes);
  return shape;
}

int64_t PackedBytes(const Matrix& matrix) {
  if (matrix.sparse) return SparseBytes(matrix);
  const auto [lines, width] = LinesOf(matrix);
  const int64_t elements = LineBytes(matrix.type, width);
  if (!matrix.quantization) return lines * elements;
  const auto& how = *matrix.quantization;
  return lines * (elements + CountGroups(width, how.group()) *
                                 (how.zero_points() ? 5 : 4));
}

}  // namespace gemmd::gemmctl
