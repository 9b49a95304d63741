// What every kernel must be: compiled without spills, its wgmma not
// serialised, of the tensor core's own instructions: the family's, sparse or
// dense, with X where the family has it. Through NVRTC, without a GPU.
#ifndef GEMMD_TESTS_JIT_SOURCE_KERNEL_CHECK_H_
#define GEMMD_TESTS_JIT_SOURCE_KERNEL_CHECK_H_

#include "jit/compile/compiler.h"
#include "jit/plan/plan.h"

namespace gemmd::jit {

// Fails the running test where the kernel of `family` and `config` is not.
void ExpectGoodKernel(Compiler& compiler, const Family& family,
                      const Config& config);

}  // namespace gemmd::jit

#endif  // GEMMD_TESTS_JIT_SOURCE_KERNEL_CHECK_H_
