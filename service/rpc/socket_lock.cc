#include "service/rpc/socket_lock.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd::rpc {

bool Names(const std::string& path, const jit::UniqueFd& file) {
  struct stat named, opened;
  return lstat(path.c_str(), &named) == 0 && fstat(file.get(), &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

absl::StatusOr<SocketLock> SocketLock::Take(const std::string& socket_path) {
  std::string path = absl::StrCat(socket_path, ".lock");
  while (true) {
    jit::UniqueFd file(
        open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.ok()) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen on ", socket_path, ": ", path, ": ", strerror(errno)));
    }
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen on ", socket_path, ": another process listens there"));
    }
    // Its holder may have removed it between our two calls: then it locks
    // nothing, and the next one is taken.
    if (Names(path, file)) return SocketLock(std::move(path), std::move(file));
  }
}

SocketLock::~SocketLock() {
  if (file_.ok() && Names(path_, file_)) unlink(path_.c_str());
}

}  // namespace gemmd::rpc
