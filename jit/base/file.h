// Files as the cache uses them: descriptors that close themselves, and errno
// as a Status. Texts never contain a path, because they may reach clients.
#ifndef GEMMD_JIT_BASE_FILE_H_
#define GEMMD_JIT_BASE_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gemmd::jit {

// Owns a file descriptor; negative means none. Thread-compatible.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  void Reset();

 private:
  int fd_ = -1;
};

// Of `error`, an errno: "cannot WHAT: Read-only file system". That is INTERNAL.
absl::Status ErrnoStatus(int error, absl::string_view what);

// All bytes of the regular file `name` in `folder`, which is not followed when
// it is a link. NOT_FOUND when there is none, DATA_LOSS when it is longer than
// `limit_bytes` or not a regular file.
absl::StatusOr<std::string> ReadFileAt(int folder, const std::string& name,
                                       int64_t limit_bytes);

// At most the first `bytes` of a file, otherwise as ReadFileAt.
absl::StatusOr<std::string> ReadStartAt(int folder, const std::string& name,
                                        size_t bytes);

// The same of many files of one folder, in order, each given to `take` with its
// place in `names`; the disk is asked for several at a time.
void ReadStartsAt(
    int folder, absl::Span<const std::string> names, size_t bytes,
    absl::FunctionRef<void(size_t, absl::StatusOr<std::string>)> take);

// INVALID_ARGUMENT for a device, which may have no end (/dev/zero); a terminal
// has one.
absl::Status CheckEnds(int file);

// All bytes of `file`, which may be a pipe. Errors as those of ReadFileAt.
absl::StatusOr<std::string> ReadAll(int file, int64_t limit_bytes);

// All bytes of what `path` names, links followed. A directory is an error.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t limit_bytes);

// Writes all of `bytes`.
absl::Status WriteAll(int fd, absl::string_view bytes);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_FILE_H_
