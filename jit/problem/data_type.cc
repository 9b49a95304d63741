#include "jit/problem/data_type.h"

#include "jit/base/status.h"

namespace gemmd::jit {

absl::string_view Name(DataType type) {
  switch (type) {
    case DataType::kF32:
      return "f32";
    case DataType::kF16:
      return "f16";
    case DataType::kBf16:
      return "bf16";
    case DataType::kE4m3:
      return "e4m3";
    case DataType::kE5m2:
      return "e5m2";
    case DataType::kS8:
      return "s8";
    case DataType::kU8:
      return "u8";
    case DataType::kS4:
      return "s4";
    case DataType::kU4:
      return "u4";
    case DataType::kB1:
      return "b1";
    case DataType::kS32:
      return "s32";
  }
  return "invalid";
}

int BitsOf(DataType type) {
  switch (type) {
    case DataType::kF32:
    case DataType::kS32:
      return 32;
    case DataType::kF16:
    case DataType::kBf16:
      return 16;
    case DataType::kE4m3:
    case DataType::kE5m2:
    case DataType::kS8:
    case DataType::kU8:
      return 8;
    case DataType::kS4:
    case DataType::kU4:
      return 4;
    case DataType::kB1:
      return 1;
  }
  return 0;
}

int BytesOf(DataType type) {
  CHECK(BitsOf(type) % 8 == 0);
  return BitsOf(type) / 8;
}

absl::string_view Name(Order order) {
  return order == Order::kRowMajor ? "row_major" : "column_major";
}

}  // namespace gemmd::jit
