// Problems as lines of text, for gemm-warmup and the benchmarks:
//
//   bf16 TN 4096 7168 2304 [OPTION]...
//
// Arithmetic (arithmetic.h: bf16, e5m2-e4m3, tf32, s8-clamp, ...), the letters
// of column-major BLAS, m, n, k. First letter: A is stored m x k column-major
// (N) or row-major (T); second: B is stored k x n column-major (N) or row-major
// (T). D is column-major unless order=row. Options, with their defaults:
//
//   d=TYPE            of D (that of A; s32 for integers and bits)
//   c=TYPE            of C (that of D)
//   alpha=1 beta=0 order=column batch=1
//   broadcast=a|b|ab  one matrix for every product of the batch
//   precision=default|tf32|fast  acc=f32|f16|s32  saturate  op=and|xor
//                     as the name of the arithmetic says
//   bias=row|column  a_scale=tensor|row|block  b_scale=tensor|column|block
//   act=relu|gelu|gelu_tanh|silu
//   d_scale  aux  amax  invariant
//
// `#` starts a comment. Pure functions, thread-safe.
#ifndef GEMMD_JIT_PROBLEM_PROBLEM_LINE_H_
#define GEMMD_JIT_PROBLEM_PROBLEM_LINE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

// A valid problem, or INVALID_ARGUMENT / UNIMPLEMENTED naming the column, its
// value and what is allowed.
absl::StatusOr<Problem> ParseProblemLine(absl::string_view line);

// What `line` has before a comment, without blanks around it.
absl::string_view WithoutComment(absl::string_view line);

// The line that parses to `problem`.
std::string ProblemLine(const Problem& problem);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_PROBLEM_LINE_H_
