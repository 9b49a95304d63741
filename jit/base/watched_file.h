// Files that a running process reads again and again, as operators change them.
#ifndef GEMMD_JIT_BASE_WATCHED_FILE_H_
#define GEMMD_JIT_BASE_WATCHED_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::jit {

// All bytes of the regular file that `path` names, links followed. Waits for
// nobody, as it would for the writer of a pipe. Fails as OfOption: `option`
// named the file.
absl::StatusOr<std::string> ReadWatchedFile(absl::string_view option,
                                            const std::string& path,
                                            int64_t limit_bytes);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_WATCHED_FILE_H_
