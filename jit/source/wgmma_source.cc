#include "jit/source/wgmma_source.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
std::string Immediates(const Family& family) {
  if (family.instruction.accumulator == DataType::kS32) return "";
  if (!ReadsMnMajor(family.instruction)) return ", 1, 1";
  const absl::string_view y = family.y_major == Major::kMn ? "1" : "0";
  // X in registers has no major.
  if (family.widening) return absl::StrCat(", 1, 1, ", y);
  return absl::StrCat(", 1, 1, ", family.x_major == Major::kMn ? "1" : "0",
                      ", ", y);
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

std::string WgmmaSource(const Family& family, int n) {
  const Instruction& instruction = family.instruction;
  CHECK(IsLegalN(instruction, n));
  CHECK(ReadsMnMajor(instruction) ||
        (family.x_major == Major::kK && family.y_major == Major::kK));
  const Registers sums = RegistersOf(instruction, n);
  const bool widened = family.widening.has_value();
  const bool sparse = instruction.sparse;

  std::string inputs;  // Of the statement, in the order of their numbers.
  int next = sums.count;
  const auto input = [&](absl::string_view constraint,
                         absl::string_view value) {
    absl::StrAppend(&inputs, inputs.empty() ? "" : ", ", "\"", constraint,
                    "\"(", value, ")");
    return absl::StrCat("%", next++);
  };
  std::string names, outputs;
  for (int i = 0; i < sums.count; ++i) {
    const absl::string_view separator = i == 0 ? "" : ", ";
    absl::StrAppend(&names, separator, "%", i);
    absl::StrAppend(&outputs, separator, "\"+", sums.constraint, "\"(d[", i,
                    "])");
  }
  std::string x;
  if (widened) {
    std::vector<std::string> four;
    for (const char* value : {"x[0]", "x[1]", "x[2]", "x[3]"}) {
      four.push_back(input("r", value));
    }
    x = absl::StrCat("{", absl::StrJoin(four, ", "), "}");
  } else {
    x = input("l", "x");
  }
  const std::string y = input("l", "y");
  std::string metadata;
  if (sparse) {
    metadata = absl::StrCat(", ", input("r", "metadata"));
    absl::StrAppend(&metadata, ", ", input("n", "kSelector"));
  }
  const std::string accumulate = input("r", "accumulate");
  return absl::StrCat("struct Wgmma {\n  using Register = ", sums.type, ";\n",
                      "  static constexpr int kRegisters = ", sums.count, ";\n",
                      sparse ? "  template <int kSelector>\n" : "",
                      "  static inline void Issue(Register (&d)[kRegisters], ",
                      widened ? "const uint32 (&x)[4]" : "uint64 x",
                      ", uint64 y,\n                           ",
                      sparse ? "int metadata, " : "", "int accumulate) {\n",
                      "    asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, ",
                      accumulate, ", 0;\\n\"\n        \"",
                      Mnemonic(instruction, n), " \"\n        \"{", names,
                      "}, \"\n        \"", x, ", ", y, metadata, ", p",
                      Immediates(family), ";\\n}\"\n        : ", outputs,
                      "\n        : ", inputs, ");\n  }\n};\n");
}

}  // namespace gemmd::jit
