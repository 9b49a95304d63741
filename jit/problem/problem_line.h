// Problems as lines of text, for gemm-warmup and the benchmarks:
//
//   bf16 TN 4096 7168 2304 [d=f32] [alpha=2] [beta=1] [order=row]
//
// Element type of A and B, the letters of column-major BLAS, m, n, k. First
// letter: A is stored m x k column-major (N) or row-major (T); second: B is
// stored k x n column-major (N) or row-major (T). D is column-major unless
// order=row; C and D have the type of A unless d= says otherwise. Defaults:
// alpha=1, beta=0. `#` starts a comment. Pure functions, thread-safe.
#ifndef GEMMD_JIT_PROBLEM_PROBLEM_LINE_H_
#define GEMMD_JIT_PROBLEM_PROBLEM_LINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

// A valid problem, or INVALID_ARGUMENT / UNIMPLEMENTED naming the column, its
// value and what is allowed.
absl::StatusOr<Problem> ParseProblemLine(absl::string_view line);

// Every line of `text` that is neither empty nor a comment. Errors carry the
// number of the line, from 1.
absl::StatusOr<std::vector<Problem>> ParseProblemLines(absl::string_view text);

// The line that parses to `problem`.
std::string ProblemLine(const Problem& problem);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_PROBLEM_LINE_H_
