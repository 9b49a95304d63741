// How large a problem may be: what kernels count in 32 bits, and what the
// planner computes in 64, does not overflow. Pure functions, thread-safe.
#ifndef GEMMD_JIT_PROBLEM_SIZES_H_
#define GEMMD_JIT_PROBLEM_SIZES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

// Most tiles of one launch, and matrices. A CTA goes on from the last one by as
// many as there are threads in a grid, which is less than 2^20.
inline constexpr int64_t kMaxTiles = (int64_t{1} << 31) - (int64_t{1} << 20);

// Of a sparse product: kernels count words of metadata, two for every element
// of k, and four where elements have 32 bits.
int64_t MaxSparseDepth(const Problem& problem);

// No plan of the problem has more tiles. As a floating-point number, because
// the problem may not be valid.
double MostTiles(const Problem& problem);

// OK, or INVALID_ARGUMENT naming what is too large, its value and what is
// allowed. Of what has no negative dimension.
absl::Status CheckSizes(const Problem& problem);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_SIZES_H_
