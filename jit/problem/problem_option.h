// The options of a problem line: one table for reading and writing. Pure
// functions, thread-safe.
#ifndef GEMMD_JIT_PROBLEM_PROBLEM_OPTION_H_
#define GEMMD_JIT_PROBLEM_PROBLEM_OPTION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

// "name=value" or "name" into `problem`; INVALID_ARGUMENT naming the option,
// its value and what is allowed.
absl::Status ParseProblemOption(absl::string_view text, Problem& problem);

// What stands behind "name=" of such an option: "default, tf32, fast".
std::string AllowedValues(absl::string_view name);

// The options in which `problem` differs from the default of its arithmetic,
// each after a blank. The arithmetic itself is not among them.
std::string ProblemOptions(const Problem& problem);

// "COLUMN is 'VALUE'; allowed: ALLOWED".
absl::Status WrongColumn(absl::string_view column, absl::string_view value,
                         absl::string_view allowed);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_PROBLEM_OPTION_H_
