// One call of NVRTC: source in, cubin and log out. Blocks until NVRTC is done;
// deadlines, isolation and parallelism are the business of who calls it.
#ifndef GEMMD_JIT_COMPILE_NVRTC_COMPILE_H_
#define GEMMD_JIT_COMPILE_NVRTC_COMPILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/compile/compiler.h"
#include "jit/compile/nvrtc_library.h"

namespace gemmd::jit {

// Errors: INTERNAL with the compiler's words when the source or an option is
// rejected, by NVRTC or by CheckCompileInput before it gets there;
// RESOURCE_EXHAUSTED when NVRTC ran out of memory.
absl::StatusOr<CompileOutput> CompileWithNvrtc(
    const NvrtcLibrary& library, const std::string& source,
    const std::vector<std::string>& options);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_NVRTC_COMPILE_H_
