// How much a thread of a consumer may hold, as ptxas 13 was seen to allow:
// beyond it, kernels spill registers to local memory. Found by compiling
// kernels by the thousand (tests/jit/source/planned_kernels_test.cc).
#ifndef GEMMD_JIT_PLAN_REGISTERS_H_
#define GEMMD_JIT_PLAN_REGISTERS_H_

#include "jit/plan/plan.h"

namespace gemmd::jit {

// Whether a consumer's registers hold its sums, also while the epilogue works.
bool HasRegisters(const Family& family, const Config& config);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_REGISTERS_H_
