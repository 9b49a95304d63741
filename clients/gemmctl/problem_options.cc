#include "clients/gemmctl/problem_options.h"

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/problem/problem_option.h"
#include "proto/convert/problem.h"

namespace gemmd::gemmctl {

void ProblemOptions::Add(cli::Command& command, const std::string& names,
                         const std::string& option, const std::string& help) {
  const std::string allowed = jit::AllowedValues(option);
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
      absl::StrCat(help, ": ", allowed, "."));
}

void ProblemOptions::Declare(cli::Command& command) {
  Add(command, "--precision NAME", "precision",
      "Where speed may be bought with accuracy");
  Add(command, "--acc,--accumulate TYPE", "acc", "Of sums");
  Add(command, "--op,--bits NAME", "op", "How bits are multiplied");
  command.Switch("--saturate", saturate,
                 "Sums of integers clamp at the ends of s32.");
  command.Switch("--invariant", invariant,
                 "A row of D depends on no other row of A, bit for bit.");
  Add(command, "--act,--activation NAME", "act", "Applied after the bias");
}

void ProblemOptions::DeclareEpilogue(cli::Command& command) {
  Add(command, "--bias OF", "bias", "Values are added to each");
  Add(command, "--a-scale OF", "a_scale", "A value is a factor of each");
  Add(command, "--b-scale OF", "b_scale", "Likewise");
  command.Switch("--d-scale,--out-scale", epilogue.d_scale,
                 "D has a factor before it is rounded.");
  command.Switch("--aux,--pre-activation", epilogue.writes_auxiliary,
                 "What the activation is applied to is a result too.");
  command.Switch("--amax", epilogue.measures_amax,
                 "So is the greatest magnitude.");
}

absl::StatusOr<jit::Problem> MakeProblem(const ProblemTypes& types,
                                         const ProblemOptions& options) {
  jit::Problem problem;
  ASSIGN_OR_RETURN(problem.a_type, convert::ToDataType(types.a, "A's type"));
  ASSIGN_OR_RETURN(problem.b_type, convert::ToDataType(types.b, "B's type"));
  problem.d_type = jit::DefaultOutput(problem.a_type, problem.b_type);
  if (types.d != v1::DATA_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(problem.d_type, convert::ToDataType(types.d, "D's type"));
  }
  problem.c_type = problem.d_type;
  problem.accumulator = jit::DefaultAccumulator(problem.a_type, problem.b_type);
  ASSIGN_OR_RETURN(problem.a_order,
                   convert::ToOrder(types.a_order, "A's order"));
  ASSIGN_OR_RETURN(problem.b_order,
                   convert::ToOrder(types.b_order, "B's order"));
  ASSIGN_OR_RETURN(problem.d_order,
                   convert::ToOrder(types.d_order, "D's order"));
  if (types.a_sparse && types.b_sparse) {
    return absl::InvalidArgumentError(
        "A and B are sparse; allowed: one of them");
  }
  problem.sparse = types.a_sparse   ? jit::Sparse::kA
                   : types.b_sparse ? jit::Sparse::kB
                                    : jit::Sparse::kNone;
  if (types.quantization) {
    ASSIGN_OR_RETURN(
        problem.quantization,
        convert::ToQuantization(*types.quantization, "quantization"));
  }
  problem.epilogue = options.epilogue;
  for (const std::string& word : options.words) {
    RETURN_IF_ERROR(jit::ParseProblemOption(word, problem));
  }
  problem.clamps = options.saturate;
  problem.invariant = options.invariant;
  return problem;
}

}  // namespace gemmd::gemmctl
