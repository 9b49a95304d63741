// The text of the one wgmma instruction that an instance needs. The
// instruction names every accumulator register, so its text differs with n;
// generating it keeps the templates free of lists. This and templates/ptx are
// the only places with inline assembly. Pure function, thread-safe.
#ifndef GEMMD_JIT_SOURCE_WGMMA_SOURCE_H_
#define GEMMD_JIT_SOURCE_WGMMA_SOURCE_H_

#include <string>

#include "jit/plan/plan.h"
#include "jit/problem/instruction.h"

namespace gemmd::jit {

// `struct Wgmma`, as templates/ptx/wgmma.h describes it. The instruction of
// `family` exists with `n` columns (IsLegalN), and operands are mn-major only
// where it reads that (ReadsMnMajor).
std::string WgmmaSource(const Family& family, int n);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_SOURCE_WGMMA_SOURCE_H_
