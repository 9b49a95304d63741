// The compiler behind the cache: NVRTC.
#ifndef GEMMD_JIT_NVRTC_COMPILER_H_
#define GEMMD_JIT_NVRTC_COMPILER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "jit/compiler.h"

namespace gemmd::jit {

struct NvrtcCompilerOptions {
  // File or folder of libnvrtc; empty searches (see NvrtcLibrary::Options).
  std::string nvrtc_path;
};

// Returns at once; the digest in identity() is computed in the background and
// waited for by its first reader. Errors: NOT_FOUND that says how to get
// NVRTC, FAILED_PRECONDITION when what was found is not usable.
absl::StatusOr<std::unique_ptr<Compiler>> CreateNvrtcCompiler(
    const NvrtcCompilerOptions& options);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_NVRTC_COMPILER_H_
