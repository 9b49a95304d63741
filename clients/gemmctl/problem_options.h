// How a product is computed, as options of commands: the words of a problem
// line (jit/problem/problem_line.h), and those of the Python client.
#ifndef GEMMD_CLIENTS_GEMMCTL_PROBLEM_OPTIONS_H_
#define GEMMD_CLIENTS_GEMMCTL_PROBLEM_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/command_line.h"
#include "gemmd/v1/types.pb.h"
#include "jit/problem/problem.h"

namespace gemmd::gemmctl {

struct ProblemOptions {
  std::vector<std::string> words;  // "precision=fast".
  bool saturate = false;
  bool invariant = false;
  jit::Epilogue epilogue;  // As far as no word says it.

  // Adds the options; this object outlives the parse.
  void Declare(cli::Command& command);
  // Those of an epilogue too, for problems without values.
  void DeclareEpilogue(cli::Command& command);

 private:
  // An option whose value is that of the problem line's `option`.
  void Add(cli::Command& command, const std::string& names,
           const std::string& option, const std::string& help);
};

// What other options and the matrices say.
struct ProblemTypes {
  v1::DataType a = v1::DATA_TYPE_UNSPECIFIED;
  v1::DataType b = v1::DATA_TYPE_UNSPECIFIED;
  v1::DataType d = v1::DATA_TYPE_UNSPECIFIED;  // Of A; s32 of integers.
  v1::Order a_order = v1::ORDER_ROW_MAJOR;
  v1::Order b_order = v1::ORDER_ROW_MAJOR;
  v1::Order d_order = v1::ORDER_ROW_MAJOR;
  bool a_sparse = false;
  bool b_sparse = false;
  std::optional<v1::Quantization> quantization;  // Of the one that is weights.
};

// A problem without dimensions and scalars, not validated.
absl::StatusOr<jit::Problem> MakeProblem(const ProblemTypes& types,
                                         const ProblemOptions& options);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_PROBLEM_OPTIONS_H_
