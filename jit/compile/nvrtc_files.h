// Which NVRTC there is: its files, kept open, and what tells it apart from
// other builds.
#ifndef GEMMD_JIT_COMPILE_NVRTC_FILES_H_
#define GEMMD_JIT_COMPILE_NVRTC_FILES_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "jit/base/file.h"
#include "jit/compile/file_notes.h"

namespace gemmd::jit {

struct NvrtcVersion {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const NvrtcVersion&, const NvrtcVersion&) = default;
};

// Copies share the descriptors. Thread-safe.
class NvrtcFiles {
 public:
  // Opens what was loaded from `library`, which says that it is of `version`,
  // and from `builtins`, "" for none.
  static absl::StatusOr<NvrtcFiles> Open(const std::string& library,
                                         const std::string& builtins,
                                         NvrtcVersion version);

  // The same for a library that nobody has loaded, with the builtins beside it,
  // when `memory` has a note of what Remember was told of these two files;
  // nothing otherwise.
  static std::optional<NvrtcFiles> Recall(const std::string& library,
                                          const std::string& memory);
  // Notes in `memory`, a cache directory, that these were loaded and are of
  // this version, if the library's file still has the `stamp` that it had
  // before.
  void Remember(const FileStamp& stamp, const std::string& memory) const;

  NvrtcVersion version() const { return version_; }
  // The library's file. A host path: not for texts that reach clients.
  const std::string& file() const { return file_; }

  // The files of the library and of its builtins, open for as long as a copy of
  // this lives; negative: none. What is loaded through them is what
  // ReadIdentity tells of, whatever lies at their paths meanwhile.
  int library_file() const { return open_->library.get(); }
  int builtins_file() const { return open_->builtins.get(); }
  // Whether neither was written to since.
  bool Unchanged() const;

  // "NVRTC 13.0 sha256:<digest of the library and its builtins>": the same for
  // the same content, wherever and under whichever names it lies. Reads about
  // 110 MB, some 100 ms from the page cache, unless `memory` remembers them
  // (jit/compile/file_digest.h). When they cannot be read, an identity that no
  // other process has: nothing is then shared with others.
  std::string ReadIdentity(const std::string& memory = "") const;

 private:
  struct OpenFiles {
    UniqueFd library, builtins;
    FileStamp library_stamp, builtins_stamp;
  };

  NvrtcFiles() = default;

  NvrtcVersion version_;
  std::string file_;
  std::shared_ptr<const OpenFiles> open_;  // Never null.
};

// Where the builtins lie that belong to the library at `file`.
std::string BuiltinsBeside(const std::string& file, NvrtcVersion version);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_NVRTC_FILES_H_
