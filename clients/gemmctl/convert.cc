#include "clients/gemmctl/convert.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gemmd::gemmctl {

namespace {

// Every type that a matrix here may have, by its name on command lines.
constexpr std::pair<const char*, v1::DataType> kTypes[] = {
    {"bf16", v1::DATA_TYPE_BF16},
    {"f16", v1::DATA_TYPE_F16},
    {"f32", v1::DATA_TYPE_F32},
};

}  // namespace

absl::StatusOr<v1::DataType> ParseDataType(const std::string& name) {
  for (const auto& [known, type] : kTypes) {
    if (name == known) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrJoin(kTypes, ", ", [](std::string* out, const auto& known) {
        absl::StrAppend(out, known.first);
      }));
}

absl::StatusOr<v1::Order> ParseOrder(const std::string& name) {
  if (name == "row") return v1::ORDER_ROW_MAJOR;
  if (name == "column") return v1::ORDER_COLUMN_MAJOR;
  return absl::InvalidArgumentError("row, column");
}

std::string Name(v1::DataType type) {
  for (const auto& [known, named] : kTypes) {
    if (named == type) return known;
  }
  return v1::DataType_Name(type);
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
  if (matrix.type != v1::DATA_TYPE_F32) {
    return absl::InvalidArgumentError(
        absl::StrCat("elements are ", Name(matrix.type), ", not ", Name(type)));
  }
  std::string converted(matrix.bytes.size() / 2, '\0');
  for (size_t i = 0; i < converted.size(); i += 2) {
    float value = 0;
    std::memcpy(&value, matrix.bytes.data() + 2 * i, 4);
    const uint16_t bits =
        type == v1::DATA_TYPE_BF16 ? ToBf16(value) : ToF16(value);
    std::memcpy(converted.data() + i, &bits, 2);
  }
  matrix.type = type;
  matrix.bytes = std::move(converted);
  return matrix;
}

Matrix Reorder(Matrix matrix, v1::Order order) {
  if (matrix.order == order) return matrix;
  const bool from_rows = matrix.order == v1::ORDER_ROW_MAJOR;
  const int64_t lines = from_rows ? matrix.rows : matrix.columns;
  const int64_t width = from_rows ? matrix.columns : matrix.rows;
  const int64_t item = ElementBytes(matrix.type);
  std::string bytes(matrix.bytes.size(), '\0');
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t i = 0; i < width; ++i) {
      std::memcpy(bytes.data() + (i * lines + line) * item,
                  matrix.bytes.data() + (line * width + i) * item, item);
    }
  }
  matrix.order = order;
  matrix.bytes = std::move(bytes);
  return matrix;
}

}  // namespace gemmd::gemmctl
