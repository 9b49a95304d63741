// NVRTC, opened at run time: the whole of its surface that is used. Never
// linked, so that a machine without it runs cached kernels.
#ifndef GEMMD_JIT_COMPILE_NVRTC_LIBRARY_H_
#define GEMMD_JIT_COMPILE_NVRTC_LIBRARY_H_

#include <nvrtc.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "jit/compile/nvrtc_files.h"

namespace gemmd::jit {

struct NvrtcSymbols {
  decltype(&::nvrtcVersion) version;
  decltype(&::nvrtcGetErrorString) get_error_string;
  decltype(&::nvrtcCreateProgram) create_program;
  decltype(&::nvrtcDestroyProgram) destroy_program;
  decltype(&::nvrtcCompileProgram) compile_program;
  decltype(&::nvrtcGetProgramLogSize) get_program_log_size;
  decltype(&::nvrtcGetProgramLog) get_program_log;
  decltype(&::nvrtcGetCUBINSize) get_cubin_size;
  decltype(&::nvrtcGetCUBIN) get_cubin;
};

// Loaded once and never closed: NVRTC does not support being unloaded. Copies
// are views of the same library. Thread-safe.
class NvrtcLibrary {
 public:
  struct Options {
    // File or folder of libnvrtc. Empty searches ../lib/gemmd beside the
    // program, then what the dynamic loader finds (first in the folder that
    // the build recorded), then /usr/local/cuda/lib64.
    std::string path;
    // File of the builtins that belong to it. Empty: those beside it, else
    // those that the dynamic loader finds.
    std::string builtins;
  };

  // NOT_FOUND says how to get NVRTC; FAILED_PRECONDITION that what was found
  // is not a usable one.
  static absl::StatusOr<NvrtcLibrary> Open(const Options& options);

  const NvrtcSymbols& symbols() const { return symbols_; }
  const NvrtcFiles& files() const { return files_; }

 private:
  NvrtcLibrary(const NvrtcSymbols& symbols, NvrtcFiles files)
      : symbols_(symbols), files_(std::move(files)) {}

  NvrtcSymbols symbols_;
  NvrtcFiles files_;
};

// The NVRTC that Open would load, for a process that compiles in others.
struct FoundNvrtc {
  NvrtcFiles files;
  bool loaded = false;  // By this call, which takes milliseconds.
};

// Errors as those of Open. Nothing is loaded when `memory`, a cache directory
// or
// "", has a note that these very files were, and which version they are of.
absl::StatusOr<FoundNvrtc> FindNvrtc(const NvrtcLibrary::Options& options,
                                     const std::string& memory);

// What to tell someone who needs a compile and has no NVRTC.
extern const char kHowToGetNvrtc[];

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_NVRTC_LIBRARY_H_
