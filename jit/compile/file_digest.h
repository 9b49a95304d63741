// SHA-256 of large files that seldom change, remembered in a folder: what was
// digested once costs a few system calls afterwards.
#ifndef GEMMD_JIT_COMPILE_FILE_DIGEST_H_
#define GEMMD_JIT_COMPILE_FILE_DIGEST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace gemmd::jit {

// Which content a file has, as far as the system tells without reading it.
// Nobody can set the time of change, so that two of these are equal only when
// nothing was written in between, but within a tick of the clock.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Of an open file.
absl::StatusOr<FileStamp> StampOf(int file);

// The 32 bytes of the digest of `file`, an open one. Remembered in the folder
// "identity" of `directory`, which is made when it is not there, unless that is
// empty or cannot be trusted.
absl::StatusOr<std::string> DigestOfFile(int file,
                                         const std::string& directory);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_FILE_DIGEST_H_
