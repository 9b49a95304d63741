#include "clients/gemmctl/problem_options.h"

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/problem/problem_option.h"
#include "proto/convert/problem.h"

namespace gemmd::gemmctl {

void ProblemOptions::Declare(cli::Command& command) {
  const auto add = [&](const std::string& names, const std::string& option,
                       const std::string& allowed, const std::string& help) {
    command.Parsed(
        names, "",
        [this, option, allowed](const std::string& text) {
          jit::Problem scratch;
          words.push_back(absl::StrCat(option, "=", text));
          // What is wrong with it is what is allowed.
          return jit::ParseProblemOption(words.back(), scratch).ok()
                     ? absl::OkStatus()
                     : absl::InvalidArgumentError(allowed);
        },
        absl::StrCat(help, allowed, "."));
  };
  add("--precision NAME", "precision", "default, tf32, fast",
      "Where speed may be bought with accuracy: ");
  add("--acc,--accumulate TYPE", "acc", "f32, f16, s32", "Of sums: ");
  add("--op,--bits NAME", "op", "and, xor", "How bits are multiplied: ");
  command.Switch("--saturate", saturate,
                 "Sums of integers clamp at the ends of s32.");
  command.Switch("--invariant", invariant,
                 "A row of D depends on no other row of A, bit for bit.");
}

absl::StatusOr<jit::Problem> MakeProblem(const ProblemTypes& types,
                                         const ProblemOptions& options) {
  jit::Problem problem;
  ASSIGN_OR_RETURN(problem.a_type, convert::ToDataType(types.a, "A's type"));
  ASSIGN_OR_RETURN(problem.b_type, convert::ToDataType(types.b, "B's type"));
  problem.d_type = jit::DefaultOutput(problem.a_type);
  if (types.d != v1::DATA_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(problem.d_type, convert::ToDataType(types.d, "D's type"));
  }
  problem.c_type = problem.d_type;
  problem.accumulator = jit::DefaultAccumulator(problem.a_type);
  ASSIGN_OR_RETURN(problem.a_order,
                   convert::ToOrder(types.a_order, "A's order"));
  ASSIGN_OR_RETURN(problem.b_order,
                   convert::ToOrder(types.b_order, "B's order"));
  ASSIGN_OR_RETURN(problem.d_order,
                   convert::ToOrder(types.d_order, "D's order"));
  for (const std::string& word : options.words) {
    RETURN_IF_ERROR(jit::ParseProblemOption(word, problem));
  }
  problem.clamps = options.saturate;
  problem.invariant = options.invariant;
  return problem;
}

}  // namespace gemmd::gemmctl
