// The compiler behind the cache: NVRTC.
#ifndef GEMMD_JIT_COMPILE_NVRTC_COMPILER_H_
#define GEMMD_JIT_COMPILE_NVRTC_COMPILER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "jit/compile/compiler.h"

namespace gemmd::jit {

struct NvrtcCompilerOptions {
  // File or folder of libnvrtc; empty searches (see NvrtcLibrary::Options).
  std::string nvrtc_path;
  // Program whose main begins with RunIfCompileWorker
  // (jit/compile/compile_worker.h):
  // "/proc/self/exe" in one that does. Compiles then run in processes of their
  // own: in parallel, with a deadline and a memory limit, and their crashes
  // are nobody else's. Empty: in this process, with none of that.
  std::string worker_program;
  // Address space that a worker may use for its compiles; 0: no limit.
  int64_t worker_memory_bytes = int64_t{4} << 30;
  // A cache directory, which remembers version and digest of NVRTC's files:
  // with a worker program, this process then neither loads nor reads them.
  // Empty: it does each time.
  std::string memory;
};

// Returns at once; the digest in identity() is computed in the background and
// waited for by its first reader. Errors: NOT_FOUND that says how to get
// NVRTC, FAILED_PRECONDITION when what was found is not usable.
absl::StatusOr<std::unique_ptr<Compiler>> CreateNvrtcCompiler(
    const NvrtcCompilerOptions& options);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_NVRTC_COMPILER_H_
