// One form of wgmma.mma_async: the types of X and Y, the type of the sum,
// whether integers clamp, and whether X is sparse. The table below is the one
// table of what is served: validation, planning, capabilities, documents and
// the conformance grid read it. PTX ISA, "Asynchronous Warpgroup Level Matrix
// Multiply-Accumulate Instructions". Plain data, thread-compatible.
#ifndef GEMMD_JIT_PROBLEM_INSTRUCTION_H_
#define GEMMD_JIT_PROBLEM_INSTRUCTION_H_

#include <string>

#include "absl/types/span.h"
#include "jit/problem/data_type.h"

namespace gemmd::jit {

struct Instruction {
  DataType x = DataType::kBf16;  // kF32 stands for tf32.
  DataType y = DataType::kBf16;
  DataType accumulator = DataType::kF32;  // kF32, kF16 or kS32.
  bool clamps = false;  // .satfinite: only with 8-bit integers.
  bool sparse = false;  // .sp: X holds half of its elements.

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

// Every form that the ISA has: 21 dense ones, then 20 sparse ones.
absl::Span<const Instruction> Instructions();

// "bf16", "f16-f16" (f16 sums), "tf32", "e4m3", "e5m2-e4m3", "e4m3-f16",
// "u8-s8", "s8-clamp", "b1", "sparse-bf16": for kernel names, tables and
// evidence.
std::string Name(const Instruction& instruction);

// Elements of k that one instruction multiplies: 32 bytes of X.
int KOf(const Instruction& instruction);

// Whether the instruction exists with `n` columns: multiples of 8 up to 256,
// for integers and bits only 8, 16, 24 and multiples of 16.
bool IsLegalN(const Instruction& instruction, int n);

// Only 16-bit operands may be mn-major in shared memory.
bool ReadsMnMajor(const Instruction& instruction);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_INSTRUCTION_H_
