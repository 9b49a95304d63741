// Source -> cubin. One implementation calls NVRTC; tests bring their own.
#ifndef GEMMD_JIT_COMPILE_COMPILER_H_
#define GEMMD_JIT_COMPILE_COMPILER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "jit/source/instance.h"

namespace gemmd::jit {

struct CompileOutput {
  std::string cubin;
  std::string log;
};

// Thread-safe.
class Compiler {
 public:
  virtual ~Compiler() = default;

  // Everything that decides the cubin besides the source and identity(): the
  // options of `instance`, completed by the compiler's own. Part of every
  // cache key.
  virtual std::vector<std::string> CommandLine(const Instance& instance) const {
    return instance.options;
  }

  // Compiles for sm_90a and gives up at `deadline`. INTERNAL with the log when
  // the source is rejected: the same source would be rejected again. Any other
  // error (a crash, a kill, no memory, no time) says nothing of the source.
  virtual absl::StatusOr<CompileOutput> Compile(const Instance& instance,
                                                absl::Time deadline) = 0;

  // For the end of the process: compiles that run, and any that comes later,
  // fail at once with UNAVAILABLE, where that can be done.
  virtual void GiveUp() {}

  // Identifies the exact build, part of every cache key: version and digest
  // of the library files.
  virtual const std::string& identity() const = 0;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_COMPILER_H_
