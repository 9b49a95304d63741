// The inside of a compile worker: a process of its own that compiles for its
// parent, so that compiles run in parallel, can be killed, are limited in
// memory and take nobody with them when they crash.
//
// A worker is the parent's own program started with other arguments; its main
// begins with
//
//   if (auto code = jit::RunIfCompileWorker(argc, argv)) return *code;
#ifndef GEMMD_JIT_COMPILE_COMPILE_WORKER_H_
#define GEMMD_JIT_COMPILE_COMPILE_WORKER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/compile/compiler.h"
#include "jit/compile/worker_protocol.h"

namespace gemmd::jit {

// Arguments that make a program a worker which compiles with the NVRTC whose
// file it has as kLibraryFd, and its builtins as kBuiltinsFd if `has_builtins`,
// and may use `memory_bytes` of address space for it (0: no limit).
std::vector<std::string> CompileWorkerArguments(bool has_builtins,
                                                int64_t memory_bytes);

// Loads NVRTC, confines itself (jit/compile/confine.h) and works until the
// parent is gone when the arguments are those of a worker; nothing otherwise.
// To be called before a thread is started.
std::optional<int> RunIfCompileWorker(int argc, char** argv);

// The worker's loop: answers requests on kWorkerFd with `compile`, ends when
// the parent closes its side or dies, even in the middle of a compile.
int ServeCompiles(
    const std::function<absl::StatusOr<CompileOutput>(const CompileRequest&)>&
        compile);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_COMPILE_WORKER_H_
