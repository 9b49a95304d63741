#include "jit/source/wgmma_source.h"

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

absl::string_view OperandType(DataType type) {
  return type == DataType::kF32 ? "tf32" : Name(type);
}

// "wgmma.mma_async.sync.aligned.m64n200k16.f32.bf16.bf16",
// "wgmma.mma_async.sp.sync.aligned.m64n200k32.f32.bf16.bf16".
std::string Mnemonic(const Instruction& instruction, int n) {
  const bool bits = instruction.x == DataType::kB1;
  const std::string types =
      absl::StrCat(".", Name(instruction.accumulator), ".",
                   OperandType(instruction.x), ".", OperandType(instruction.y));
  const absl::string_view clamp = instruction.clamps ? ".satfinite" : "";
  // A sparse form says it before the types.
  return absl::StrCat("wgmma.mma_async", instruction.sparse ? ".sp" : "",
                      ".sync.aligned.m64n", n, "k", KOf(instruction),
                      instruction.sparse ? clamp : "", types,
                      bits ? ".and.popc" : "",
                      instruction.sparse ? "" : clamp);
}

// What follows the predicate: neither operand negated; which are mn-major.
std::string Immediates(const Instruction& instruction, Major x_major,
                       Major y_major) {
  if (instruction.accumulator == DataType::kS32) return "";
  if (!ReadsMnMajor(instruction)) return ", 1, 1";
  return absl::StrCat(", 1, 1, ", x_major == Major::kMn ? 1 : 0, ", ",
                      y_major == Major::kMn ? 1 : 0);
}

struct Registers {
  absl::string_view type;
  absl::string_view constraint;
  int count;  // Per thread: 64 n sums over 128 threads.
};

Registers RegistersOf(const Instruction& instruction, int n) {
  switch (instruction.accumulator) {
    case DataType::kF16:
      return {"uint32", "r", n / 4};  // Two to a register.
    case DataType::kS32:
      return {"int", "r", n / 2};
    default:
      return {"float", "f", n / 2};
  }
}

}  // namespace

std::string WgmmaSource(const Instruction& instruction, int n, Major x_major,
                        Major y_major) {
  CHECK(IsLegalN(instruction, n));
  CHECK(ReadsMnMajor(instruction) ||
        (x_major == Major::kK && y_major == Major::kK));
  const Registers registers = RegistersOf(instruction, n);
  std::string names, operands;
  for (int i = 0; i < registers.count; ++i) {
    const absl::string_view separator = i == 0 ? "" : ", ";
    absl::StrAppend(&names, separator, "%", i);
    absl::StrAppend(&operands, separator, "\"+", registers.constraint, "\"(d[",
                    i, "])");
  }
  const int x = registers.count, y = x + 1;
  const bool sparse = instruction.sparse;
  // Behind the operands of a sparse form: metadata and selector.
  const int accumulate = y + (sparse ? 3 : 1);
  return absl::StrCat(
      "struct Wgmma {\n  using Register = ", registers.type, ";\n",
      "  static constexpr int kRegisters = ", registers.count, ";\n",
      sparse ? "  template <int kSelector>\n" : "",
      "  static inline void Issue(Register (&d)[kRegisters], uint64 x, "
      "uint64 y,\n                           ",
      sparse ? "int metadata, " : "", "int accumulate) {\n",
      "    asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, %", accumulate,
      ", 0;\\n\"\n        \"", Mnemonic(instruction, n), " \"\n        \"{",
      names, "}, \"\n        \"%", x, ", %", y,
      sparse ? absl::StrCat(", %", y + 1, ", %", y + 2) : "", ", p",
      Immediates(instruction, x_major, y_major),
      ";\\n}\"\n        : ", operands,
      "\n        : \"l\"(x), \"l\"(y), ",
      sparse ? "\"r\"(metadata), \"n\"(kSelector), " : "",
      "\"r\"(accumulate));\n  }\n};\n");
}

}  // namespace gemmd::jit
