#include "jit/problem/instruction.h"

#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gemmd::jit {
namespace {

using enum DataType;

constexpr Instruction kDense[] = {
    {kBf16, kBf16, kF32},   {kF16, kF16, kF32},     {kF16, kF16, kF16},
    {kF32, kF32, kF32},     {kE4m3, kE4m3, kF32},   {kE4m3, kE5m2, kF32},
    {kE5m2, kE4m3, kF32},   {kE5m2, kE5m2, kF32},   {kE4m3, kE4m3, kF16},
    {kE4m3, kE5m2, kF16},   {kE5m2, kE4m3, kF16},   {kE5m2, kE5m2, kF16},
    {kS8, kS8, kS32},       {kS8, kU8, kS32},       {kU8, kS8, kS32},
    {kU8, kU8, kS32},       {kS8, kS8, kS32, true}, {kS8, kU8, kS32, true},
    {kU8, kS8, kS32, true}, {kU8, kU8, kS32, true}, {kB1, kB1, kS32},
};

std::vector<Instruction> MakeTable() {
  std::vector<Instruction> all(std::begin(kDense), std::end(kDense));
  for (Instruction instruction : kDense) {
    if (instruction.x == kB1) continue;
    instruction.sparse = true;
    all.push_back(instruction);
  }
  return all;
}

absl::string_view OperandName(DataType type) {
  return type == kF32 ? "tf32" : Name(type);
}

}  // namespace

absl::Span<const Instruction> Instructions() {
  static const std::vector<Instruction>& table =
      *new std::vector<Instruction>(MakeTable());
  return table;
}

std::string Name(const Instruction& instruction) {
  std::string name(instruction.sparse ? "sparse-" : "");
  absl::StrAppend(&name, OperandName(instruction.x));
  if (instruction.y != instruction.x) {
    absl::StrAppend(&name, "-", OperandName(instruction.y));
  }
  if (instruction.accumulator == kF16) absl::StrAppend(&name, "-f16");
  if (instruction.clamps) absl::StrAppend(&name, "-clamp");
  return name;
}

int KOf(const Instruction& instruction) {
  return 32 * 8 / BitsOf(instruction.x) * (instruction.sparse ? 2 : 1);
}

bool IsLegalN(const Instruction& instruction, int n) {
  if (n < 8 || n > 256 || n % 8 != 0) return false;
  return instruction.accumulator != kS32 || n <= 24 || n % 16 == 0;
}

bool ReadsMnMajor(const Instruction& instruction) {
  return BitsOf(instruction.x) == 16;
}

}  // namespace gemmd::jit
