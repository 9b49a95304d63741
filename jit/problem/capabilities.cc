#include "jit/problem/capabilities.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "jit/problem/arithmetic.h"
#include "jit/problem/data_type.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {
namespace {

// The smallest product of an arithmetic.
Problem ProblemOf(const Arithmetic& arithmetic) {
  Problem problem = {.m = 1, .n = 1, .k = 1};
  problem.a_type = arithmetic.a;
  problem.b_type = arithmetic.b;
  problem.accumulator = arithmetic.accumulator;
  problem.precision = arithmetic.precision;
  problem.clamps = arithmetic.clamps;
  problem.bit_operation = arithmetic.bit_operation;
  problem.c_type = problem.d_type = DefaultOutput(arithmetic.a);
  return problem;
}

// What distinguishes it from others of the same types.
std::string Remark(const Arithmetic& arithmetic) {
  if (arithmetic.accumulator == DataType::kS32) {
    if (arithmetic.a == DataType::kB1) {
      return arithmetic.bit_operation == BitOperation::kXor
                 ? "counts bits that differ"
                 : "counts bits that are both 1";
    }
    return arithmetic.clamps ? "clamps at the ends of s32" : "wraps";
  }
  if (arithmetic.accumulator == DataType::kF16) return "rounded as it grows";
  if (arithmetic.a == DataType::kF32) {
    switch (arithmetic.precision) {
      case Precision::kDefault:
        return "accurate, by six products of bf16";
      case Precision::kTf32:
        return "inputs rounded to nearest tf32";
      case Precision::kFast:
        return "inputs truncated to tf32";
    }
  }
  if (!IsFp8(arithmetic.a)) return "";
  return arithmetic.precision == Precision::kFast
             ? "14 bits, in the tensor core"
             : "promoted every 128 k; scales by block";
}

std::string Outputs(const Arithmetic& arithmetic) {
  return absl::StrJoin(OutputsOf(arithmetic.accumulator), ", ",
                       [](std::string* out, DataType type) {
                         absl::StrAppend(out, Name(type));
                       });
}

}  // namespace

std::string CapabilitiesMarkdown() {
  std::string text =
      "| name | A | B | sum | | D |\n|---|---|---|---|---|---|\n";
  for (const Arithmetic& arithmetic : Arithmetics()) {
    absl::StrAppend(&text, "| ", Name(arithmetic), " | ", Name(arithmetic.a),
                    " | ", Name(arithmetic.b), " | ",
                    Name(arithmetic.accumulator), " | ", Remark(arithmetic),
                    " | ", Outputs(arithmetic), " |\n");
  }
  return text;
}

std::string CapabilitiesText() {
  std::string text =
      absl::StrFormat("%-16s %-5s %-5s %-4s %-38s %-32s %s\n", "NAME", "A", "B",
                      "SUM", "", "D", "KERNELS");
  for (const Arithmetic& arithmetic : Arithmetics()) {
    absl::StrAppendFormat(
        &text, "%-16s %-5s %-5s %-4s %-38s %-32s %s\n", Name(arithmetic),
        Name(arithmetic.a), Name(arithmetic.b), Name(arithmetic.accumulator),
        Remark(arithmetic), Outputs(arithmetic),
        Validate(ProblemOf(arithmetic)).ok() ? "yes" : "not in this build");
  }
  return text;
}

}  // namespace gemmd::jit
