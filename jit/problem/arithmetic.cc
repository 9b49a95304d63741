#include "jit/problem/arithmetic.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gemmd::jit {
namespace {

using enum DataType;

// What requests make of one instruction, whose X is the sparse operand.
void AddVariants(const Instruction& instruction, Sparse sparse,
                 std::vector<Arithmetic>& all) {
  Arithmetic plain = {.a = instruction.x,
                      .b = instruction.y,
                      .accumulator = instruction.accumulator,
                      .clamps = instruction.clamps,
                      .sparse = sparse};
  if (sparse == Sparse::kB) std::swap(plain.a, plain.b);
  // Sums of six sparse products would need metadata for each.
  if (!(instruction.sparse && instruction.x == kF32)) all.push_back(plain);
  if (instruction.accumulator != kF16 &&
      (instruction.x == kF32 || IsFp8(instruction.x))) {
    if (instruction.x == kF32) {
      plain.precision = Precision::kTf32;
      all.push_back(plain);
    }
    plain.precision = Precision::kFast;
    all.push_back(plain);
  }
  if (instruction.x == kB1) {
    plain.bit_operation = BitOperation::kXor;
    all.push_back(plain);
  }
}

// Weights and what they are widened to.
void AddMixed(std::vector<Arithmetic>& all) {
  for (const DataType activations : {kBf16, kF16}) {
    for (const DataType weights : {kS4, kU4, kS8, kE4m3}) {
      all.push_back({.a = activations, .b = weights});
      all.push_back({.a = weights, .b = activations});
    }
  }
}

std::vector<Arithmetic> MakeTable() {
  std::vector<Arithmetic> all;
  for (const Instruction& instruction : Instructions()) {
    if (instruction.sparse) {
      AddVariants(instruction, Sparse::kA, all);
      AddVariants(instruction, Sparse::kB, all);
    } else {
      AddVariants(instruction, Sparse::kNone, all);
    }
  }
  AddMixed(all);
  return all;
}

bool IsInteger(DataType type) {
  switch (type) {
    case kS4:
    case kU4:
    case kS8:
    case kU8:
    case kS32:
    case kB1:
      return true;
    default:
      return false;
  }
}

constexpr DataType kFloatOutputs[] = {kF32, kF16, kBf16, kE4m3, kE5m2};
constexpr DataType kIntegerOutputs[] = {kS32, kF32, kF16, kBf16, kS8, kU8};

}  // namespace

absl::string_view Name(Precision precision) {
  switch (precision) {
    case Precision::kDefault:
      return "default";
    case Precision::kTf32:
      return "tf32";
    case Precision::kFast:
      return "fast";
  }
  return "invalid";
}

absl::string_view Name(BitOperation operation) {
  return operation == BitOperation::kAnd ? "and" : "xor";
}

absl::string_view Name(Sparse sparse) {
  switch (sparse) {
    case Sparse::kNone:
      return "none";
    case Sparse::kA:
      return "a";
    case Sparse::kB:
      return "b";
  }
  return "invalid";
}

absl::Span<const Arithmetic> Arithmetics() {
  static const std::vector<Arithmetic>& table =
      *new std::vector<Arithmetic>(MakeTable());
  return table;
}

std::string Name(const Arithmetic& arithmetic) {
  const bool tf32 =
      arithmetic.a == kF32 && arithmetic.precision != Precision::kDefault;
  std::string name(arithmetic.sparse == Sparse::kA ? "sparse-" : "");
  absl::StrAppend(&name, tf32 ? "tf32" : Name(arithmetic.a),
                  arithmetic.sparse == Sparse::kB ? "-sparse" : "");
  if (arithmetic.b != arithmetic.a) {
    absl::StrAppend(&name, "-", Name(arithmetic.b));
  }
  // "e4m3-f16" are products of e4m3 with sums in f16.
  const bool ambiguous = IsFp8(arithmetic.a) && arithmetic.b == kF16;
  if (ambiguous || arithmetic.accumulator !=
                       DefaultAccumulator(arithmetic.a, arithmetic.b)) {
    absl::StrAppend(&name, "-", Name(arithmetic.accumulator));
  }
  if (arithmetic.precision == Precision::kFast) absl::StrAppend(&name, "-fast");
  if (arithmetic.clamps) absl::StrAppend(&name, "-clamp");
  if (arithmetic.bit_operation == BitOperation::kXor) {
    absl::StrAppend(&name, "-xor");
  }
  return name;
}

Instruction InstructionOf(const Arithmetic& arithmetic) {
  if (arithmetic.a == kF32 && arithmetic.precision == Precision::kDefault) {
    return {kBf16, kBf16, kF32};
  }
  if (IsMixed(arithmetic.a, arithmetic.b)) {
    const DataType type = DefaultOutput(arithmetic.a, arithmetic.b);
    return {type, type, arithmetic.accumulator};
  }
  Instruction instruction = {arithmetic.a, arithmetic.b, arithmetic.accumulator,
                             arithmetic.clamps,
                             arithmetic.sparse != Sparse::kNone};
  if (arithmetic.sparse == Sparse::kB) std::swap(instruction.x, instruction.y);
  return instruction;
}

bool IsMixed(DataType a, DataType b) {
  return std::max(BitsOf(a), BitsOf(b)) == 16 && BitsOf(a) != BitsOf(b);
}

bool WeightsAreB(DataType a, DataType b) { return BitsOf(b) < BitsOf(a); }

DataType DefaultAccumulator(DataType a, DataType b) {
  return IsInteger(a) && IsInteger(b) ? kS32 : kF32;
}

DataType DefaultOutput(DataType a, DataType b) {
  if (IsMixed(a, b)) return WeightsAreB(a, b) ? a : b;
  return IsInteger(a) ? kS32 : a;
}

absl::Span<const DataType> OutputsOf(DataType accumulator) {
  if (accumulator == kS32) return kIntegerOutputs;
  return kFloatOutputs;
}

bool IsFp8(DataType type) { return type == kE4m3 || type == kE5m2; }

}  // namespace gemmd::jit
