// Element types and storage orders: the words that every layer shares.
//
// Values are internal; the wire has its own enum (proto/gemmd/v1/types.proto).
// Immutable, thread-safe.
#ifndef GEMMD_JIT_PROBLEM_DATA_TYPE_H_
#define GEMMD_JIT_PROBLEM_DATA_TYPE_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace gemmd::jit {

enum class DataType : uint8_t {
  kF32,
  kF16,
  kBf16,
  kE4m3,
  kE5m2,
  kS8,
  kU8,
  kS4,
  kU4,
  kB1,
  kS32,
};

// Lower-case name as used in kernel names and on command lines: "bf16".
absl::string_view Name(DataType type);

// Size of one element in bits: 4 for kS4 and kU4, 1 for kB1.
int BitsOf(DataType type);

// Size of one element in bytes. CHECK-fails where several share one.
int BytesOf(DataType type);

// Which dimension of a stored matrix is contiguous.
enum class Order : uint8_t { kRowMajor, kColumnMajor };

absl::string_view Name(Order order);

// The order in which the transposed matrix has the same bytes.
constexpr Order Opposite(Order order) {
  return order == Order::kRowMajor ? Order::kColumnMajor : Order::kRowMajor;
}

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_DATA_TYPE_H_
