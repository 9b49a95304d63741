// NVRTC, opened at run time: the whole of its surface that is used, and which
// build of it this is. Never linked, so that a machine without it runs cached
// kernels.
#ifndef GEMMD_JIT_COMPILE_NVRTC_LIBRARY_H_
#define GEMMD_JIT_COMPILE_NVRTC_LIBRARY_H_

#include <nvrtc.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "jit/base/file.h"
#include "jit/compile/file_digest.h"

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

struct NvrtcVersion {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const NvrtcVersion&, const NvrtcVersion&) = default;
};

// Loaded once and never closed: NVRTC does not support being unloaded. Copies
// are views of the same library. Thread-safe.
class NvrtcLibrary {
 public:
  struct Options {
    // File or folder of libnvrtc. Empty searches the folder that the build
    // recorded (that of deploy/setup.sh, or ../lib/gemmd beside an installed
    // program), then what the dynamic loader finds, then
    // /usr/local/cuda/lib64.
    std::string path;
    // File of the builtins that belong to it. Empty: those beside it, else
    // those that the dynamic loader finds.
    std::string builtins;
  };

  // NOT_FOUND says how to get NVRTC; FAILED_PRECONDITION that what was found
  // is not a usable one.
  static absl::StatusOr<NvrtcLibrary> Open(const Options& options);

  const NvrtcSymbols& symbols() const { return symbols_; }
  NvrtcVersion version() const { return version_; }
  // The library's file. A host path: not for texts that reach clients.
  const std::string& file() const { return file_; }

  // The files of the library and of its builtins, open for as long as a copy of
  // this lives; negative: none. What is loaded through them is what
  // ReadIdentity tells of, whatever lies at their paths meanwhile.
  int library_file() const { return files_->library.get(); }
  int builtins_file() const { return files_->builtins.get(); }
  // Whether neither was written to since.
  bool Unchanged() const;

  // "NVRTC 13.0 sha256:<digest of the library and its builtins>": the same for
  // the same content, wherever and under whichever names it lies. Reads about
  // 110 MB, some 100 ms from the page cache, unless `memory` remembers them
  // (jit/compile/file_digest.h). When they cannot be read, an identity that no
  // other process has: nothing is then shared with others.
  std::string ReadIdentity(const std::string& memory = "") const;

 private:
  struct Files {
    UniqueFd library, builtins;
    FileStamp library_stamp, builtins_stamp;
  };

  NvrtcLibrary() = default;

  absl::Status OpenFiles(const std::string& builtins);

  NvrtcSymbols symbols_ = {};
  NvrtcVersion version_;
  std::string file_;
  std::shared_ptr<const Files> files_;  // Never null after Open.
};

// What to tell someone who needs a compile and has no NVRTC.
extern const char kHowToGetNvrtc[];

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_NVRTC_LIBRARY_H_
