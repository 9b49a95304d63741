// What this build has kernels for, of what a problem may ask. Pure function,
// thread-safe.
#ifndef GEMMD_JIT_PROBLEM_SERVED_H_
#define GEMMD_JIT_PROBLEM_SERVED_H_

#include "absl/status/status.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

// OK, or UNIMPLEMENTED naming the field, its value and what is served.
// `problem` is valid but for this.
absl::Status CheckServed(const Problem& problem);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_SERVED_H_
