// How a product is computed before its epilogue, in the words of a request:
// the types of A and B, the type of the sum, and where speed is bought with
// accuracy. The table of these is derived from that of the instructions; with
// the outputs below it is all that is served. Plain data, thread-compatible.
#ifndef GEMMD_JIT_PROBLEM_ARITHMETIC_H_
#define GEMMD_JIT_PROBLEM_ARITHMETIC_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "jit/problem/data_type.h"
#include "jit/problem/instruction.h"

namespace gemmd::jit {

// Where speed may be bought with accuracy, or the other way round.
enum class Precision : uint8_t {
  // f32: accurate, by six products of bf16 terms. fp8: partial sums are
  // promoted to f32 every 128 k.
  kDefault,
  kTf32,  // f32 only: inputs are rounded to nearest tf32.
  kFast,  // f32: inputs are truncated to tf32. fp8: no promotion.
};

absl::string_view Name(Precision precision);  // "default", "tf32", "fast".

enum class BitOperation : uint8_t { kAnd, kXor };  // b1 only.

absl::string_view Name(BitOperation operation);  // "and", "xor".

// Which operand holds half of its elements; see layout.h.
enum class Sparse : uint8_t { kNone, kA, kB };

absl::string_view Name(Sparse sparse);  // "none", "a", "b".

struct Arithmetic {
  DataType a = DataType::kBf16;
  DataType b = DataType::kBf16;
  DataType accumulator = DataType::kF32;  // kF32, kF16 or kS32.
  Precision precision = Precision::kDefault;
  bool clamps = false;  // Integer sums clamp at the ends of s32; else wrap.
  BitOperation bit_operation = BitOperation::kAnd;
  Sparse sparse = Sparse::kNone;

  friend bool operator==(const Arithmetic&, const Arithmetic&) = default;
};

// All that are served; the default of each pair of types before its variants.
absl::Span<const Arithmetic> Arithmetics();

// "bf16", "f16-f16" (f16 sums), "f32", "tf32", "tf32-fast", "e4m3",
// "e5m2-e4m3-fast", "u8-s8", "s8-clamp", "b1-xor"; "sparse-bf16" and
// "sparse-e4m3-e5m2" where A is sparse, "bf16-sparse" and "e4m3-sparse-e5m2"
// where B is; "bf16-s4" and "s4-bf16" where B or A has weights, and
// "e4m3-f16-f32", because "e4m3-f16" has f16 sums.
std::string Name(const Arithmetic& arithmetic);

// Of a tensor core: "f32" runs as products of bf16, weights as elements of the
// other operand's type. A sparse operand is X; otherwise X is A.
Instruction InstructionOf(const Arithmetic& arithmetic);

// Whether one operand, the weights, has a narrower type than the other, to
// which it is widened; and whether that is B.
bool IsMixed(DataType a, DataType b);
bool WeightsAreB(DataType a, DataType b);

// Of inputs of these types: kF32, but kS32 for integers and bits.
DataType DefaultAccumulator(DataType a, DataType b);

// Type of D where a request names none: that of A, or of what is not weights;
// s32 for integers and bits.
DataType DefaultOutput(DataType a, DataType b);

// What D may be for sums of this type. From s32, other types are reached
// through f32.
absl::Span<const DataType> OutputsOf(DataType accumulator);

bool IsFp8(DataType type);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_ARITHMETIC_H_
