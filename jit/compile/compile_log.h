// What NVRTC and ptxas said of a successful compile: the resources of the
// kernel, and the complaints that make a fast kernel slow. Pure function.
#ifndef GEMMD_JIT_COMPILE_COMPILE_LOG_H_
#define GEMMD_JIT_COMPILE_COMPILE_LOG_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::jit {

struct KernelResources {
  int registers = 0;  // Per thread.
  int static_shared_memory_bytes = 0;
  int spill_bytes = 0;  // Stores and loads.
};

// Reads a log made with --ptxas-options=-v. INTERNAL, with the compiler's
// words, when ptxas serialised wgmma, ignored setmaxnreg or spilled registers
// (each costs up to 10x), and when the log does not tell.
absl::StatusOr<KernelResources> ReadCompileLog(absl::string_view log);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_COMPILE_LOG_H_
