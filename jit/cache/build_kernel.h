// Instance -> compiled kernel that may be used: compiles, reads the log,
// checks the cubin.
#ifndef GEMMD_JIT_CACHE_BUILD_KERNEL_H_
#define GEMMD_JIT_CACHE_BUILD_KERNEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "jit/cache/kernel_cache.h"
#include "jit/compile/compiler.h"
#include "jit/source/instance.h"

namespace gemmd::jit {

// CacheKey of what `compiler` makes of `instance`.
std::string KeyOf(const Compiler& compiler, const Instance& instance);

// INTERNAL, with the compiler's words, when the instance does not compile,
// spills or has its warpgroup instructions slowed down: building it again
// would fail again. Any other error says nothing of the instance.
absl::StatusOr<CompiledKernel> BuildKernel(Compiler& compiler,
                                           const Instance& instance,
                                           absl::Time deadline);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_BUILD_KERNEL_H_
