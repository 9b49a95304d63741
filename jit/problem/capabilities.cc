#include "jit/problem/capabilities.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "jit/problem/arithmetic.h"
#include "jit/problem/data_type.h"
#include "jit/problem/epilogue_choices.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {
namespace {

// The smallest product of an arithmetic.
Problem ProblemOf(const Arithmetic& arithmetic) {
  Problem problem = {.m = 1, .n = 1, .k = ChunkOf(arithmetic.a)};
  problem.SetArithmetic(arithmetic);
  if (arithmetic.sparse == Sparse::kB) problem.b_order = Order::kColumnMajor;
  return problem;
}

// What distinguishes it from others of the same types.
std::string Remark(const Arithmetic& arithmetic) {
  const auto [a, b] = std::pair(arithmetic.a, arithmetic.b);
  if (IsMixed(a, b)) {
    return absl::StrCat(Name(WeightsAreB(a, b) ? b : a), " widened to ",
                        Name(InstructionOf(arithmetic).x), "; scales by group");
  }
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
  if (arithmetic.precision == Precision::kFast) {
    return "14 bits, in the tensor core";
  }
  return arithmetic.sparse == Sparse::kNone
             ? "promoted every 128 k; scales by block"
             : "promoted every 128 k";
}

// "bf16", "sparse bf16".
std::string OperandName(DataType type, bool sparse) {
  return absl::StrCat(sparse ? "sparse " : "", Name(type));
}

std::string AName(const Arithmetic& arithmetic) {
  return OperandName(arithmetic.a, arithmetic.sparse == Sparse::kA);
}

std::string BName(const Arithmetic& arithmetic) {
  return OperandName(arithmetic.b, arithmetic.sparse == Sparse::kB);
}

// Names of what is the same but for `sparse`; "" where there is none.
std::string NameWith(Sparse sparse, Arithmetic arithmetic) {
  arithmetic.sparse = sparse;
  return absl::c_linear_search(Arithmetics(), arithmetic) ? Name(arithmetic)
                                                          : "";
}

// Names, separated by commas, but for the first `skipped`.
template <typename T>
std::string Names(absl::Span<const T> values, size_t skipped = 0) {
  return absl::StrJoin(
      values.subspan(skipped), ", ",
      [](std::string* out, T value) { absl::StrAppend(out, Name(value)); });
}

std::string Outputs(const Arithmetic& arithmetic) {
  return Names<DataType>(OutputsOf(arithmetic.accumulator));
}

// One row of the epilogue's table: what `apply` adds to a problem.
struct Step {
  std::string name;
  std::string values;
  std::string meaning;
  void (*apply)(Problem& problem);
};

// In the order in which they are computed.
std::vector<Step> Steps() {
  constexpr size_t kDefault = 1;  // Comes first among the choices.
  const auto extents = [](absl::Span<const Extent> all) {
    return Names<Extent>(all.subspan(kDefault, all.size() - 2));  // No block.
  };
  return {
      {"a_scale", extents(kAScaleExtents), "factors of A's rows",
       [](Problem& p) { p.epilogue.a_scale = Extent::kRow; }},
      {"b_scale", extents(kBScaleExtents), "factors of B's columns",
       [](Problem& p) { p.epilogue.b_scale = Extent::kColumn; }},
      {"a_scale and b_scale", "block", "of 1 x 128 of A, 128 x 128 of B",
       [](Problem& p) {
         p.epilogue.a_scale = p.epilogue.b_scale = Extent::kBlock;
       }},
      {"alpha", "a number", "", [](Problem& p) { p.alpha = 0.5f; }},
      {"beta, c", "a number, C", "0 or 1 where D is s32",
       [](Problem& p) { p.beta = 1; }},
      {"bias", Names<Extent>(kBiasExtents, kDefault), "is added",
       [](Problem& p) { p.epilogue.bias = Extent::kColumn; }},
      {"auxiliary", "", "a second result: what comes until here",
       [](Problem& p) { p.epilogue.writes_auxiliary = true; }},
      {"activation", Names<Activation>(kActivations, kDefault), "",
       [](Problem& p) { p.epilogue.activation = Activation::kRelu; }},
      {"amax", "", "a third: the greatest magnitude",
       [](Problem& p) { p.epilogue.measures_amax = true; }},
      {"d_scale", "a number", "before D is rounded",
       [](Problem& p) { p.epilogue.d_scale = true; }},
  };
}

// What a step goes with, as validation says.
struct Served {
  std::string names;  // Of arithmetics; "all".
  std::string outputs;
};

Served ServedWith(const Step& step) {
  std::vector<std::string> names;
  std::set<DataType> outputs;
  for (const Arithmetic& arithmetic : Arithmetics()) {
    bool served = false;
    for (const DataType type : OutputsOf(arithmetic.accumulator)) {
      Problem problem = ProblemOf(arithmetic);
      problem.c_type = problem.d_type = type;
      step.apply(problem);
      if (!Validate(problem).ok()) continue;
      served = true;
      outputs.insert(type);
    }
    if (served) names.push_back(Name(arithmetic));
  }
  const std::vector<DataType> types(outputs.begin(), outputs.end());
  return {
      names.size() == Arithmetics().size() ? "all" : absl::StrJoin(names, ", "),
      Names<DataType>(types)};
}

}  // namespace

std::string CapabilitiesMarkdown() {
  std::string text =
      "| name | A | B | sum | | D | with a sparse A | with a sparse B |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const Arithmetic& arithmetic : Arithmetics()) {
    if (arithmetic.sparse != Sparse::kNone) continue;
    absl::StrAppend(&text, "| ", Name(arithmetic), " | ", Name(arithmetic.a),
                    " | ", Name(arithmetic.b), " | ",
                    Name(arithmetic.accumulator), " | ", Remark(arithmetic),
                    " | ", Outputs(arithmetic), " | ",
                    NameWith(Sparse::kA, arithmetic), " | ",
                    NameWith(Sparse::kB, arithmetic), " |\n");
  }
  return text;
}

std::string CapabilitiesText() {
  std::string text =
      absl::StrFormat("%-21s %-11s %-11s %-4s %-38s %-32s %s\n", "NAME", "A",
                      "B", "SUM", "", "D", "KERNELS");
  for (const Arithmetic& arithmetic : Arithmetics()) {
    absl::StrAppendFormat(
        &text, "%-21s %-11s %-11s %-4s %-38s %-32s %s\n", Name(arithmetic),
        AName(arithmetic), BName(arithmetic), Name(arithmetic.accumulator),
        Remark(arithmetic), Outputs(arithmetic),
        Validate(ProblemOf(arithmetic)).ok() ? "yes" : "not in this build");
  }
  absl::StrAppendFormat(&text, "\n%-20s %-27s %-42s %s\n", "STEP", "VALUES", "",
                        "WITH; D");
  for (const Step& step : Steps()) {
    const Served served = ServedWith(step);
    absl::StrAppendFormat(&text, "%-20s %-27s %-42s %s; %s\n", step.name,
                          step.values, step.meaning, served.names,
                          served.outputs);
  }
  return text;
}

std::string EpilogueMarkdown() {
  std::string text = "| step | values | | with | D |\n|---|---|---|---|---|\n";
  for (const Step& step : Steps()) {
    const Served served = ServedWith(step);
    absl::StrAppend(&text, "| ", step.name, " | ", step.values, " | ",
                    step.meaning, " | ", served.names, " | ", served.outputs,
                    " |\n");
  }
  return text;
}

}  // namespace gemmd::jit
