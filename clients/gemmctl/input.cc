#include "clients/gemmctl/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

constexpr char kStandard[] = "-";

}  // namespace

std::string InputName(const std::string& path) {
  return path == kStandard ? "standard input" : path;
}

absl::StatusOr<Input> Input::Open(const std::string& path) {
  jit::UniqueFd file(path == kStandard
                         ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                         : open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("open ", InputName(path)));
  }
  const absl::Status ends = jit::CheckEnds(file.get());
  if (ends.ok()) return Input(std::move(file));
  return absl::Status(ends.code(),
                      absl::StrCat(InputName(path), ": ", ends.message()));
}

absl::Status Input::Fill(int64_t size, std::string& bytes) {
  // A header may promise more than there is memory for, and a file tells.
  constexpr int64_t kLeast = 65536;
  struct stat facts;
  if (fstat(file_.get(), &facts) == 0 && S_ISREG(facts.st_mode)) {
    bytes.reserve(std::max<int64_t>(0, std::min(size, facts.st_size)));
  }
  while (!ended_ && std::ssize(bytes) < size) {
    const int64_t done = std::ssize(bytes);
    const int64_t wanted = std::min(size - done, std::max(done, kLeast));
    bytes.resize(done + wanted);
    const ssize_t got = read(file_.get(), bytes.data() + done, wanted);
    const int error = errno;
    bytes.resize(done + std::max<int64_t>(0, got));
    if (got < 0 && error != EINTR) return jit::ErrnoStatus(error, "read it");
    ended_ = got == 0;
  }
  return absl::OkStatus();
}

}  // namespace gemmd::gemmctl
