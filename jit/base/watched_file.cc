#include "jit/base/watched_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "jit/base/file.h"
#include "jit/base/of_option.h"

namespace gemmd::jit {
namespace {

absl::StatusOr<std::string> Read(const std::string& path, int64_t limit_bytes) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts;
  if (!file.ok() || fstat(file.get(), &facts) != 0) {
    return ErrnoStatus(errno, "open a file");
  }
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError("it is no regular file");
  }
  return ReadAll(file.get(), limit_bytes);
}

}  // namespace

absl::StatusOr<std::string> ReadWatchedFile(absl::string_view option,
                                            const std::string& path,
                                            int64_t limit_bytes) {
  absl::StatusOr<std::string> text = Read(path, limit_bytes);
  if (text.ok()) return text;
  return OfOption(option, path, text.status().message());
}

}  // namespace gemmd::jit
