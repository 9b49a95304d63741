// SHA-256 of large files that seldom change, remembered in a folder: what was
// digested once costs a few system calls afterwards.
#ifndef GEMMD_JIT_COMPILE_FILE_DIGEST_H_
#define GEMMD_JIT_COMPILE_FILE_DIGEST_H_

#include <string>

#include "absl/status/statusor.h"

namespace gemmd::jit {

// The 32 bytes of the digest of `file`, an open one. Noted in `directory`
// (jit/compile/file_notes.h), unless that is empty or cannot be trusted.
absl::StatusOr<std::string> DigestOfFile(int file,
                                         const std::string& directory);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_FILE_DIGEST_H_
