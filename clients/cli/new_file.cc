#include "clients/cli/new_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::cli {
namespace {

namespace fs = std::filesystem;

absl::Status CannotWrite(const std::string& path) {
  return jit::ErrnoStatus(errno, absl::StrCat("write ", path));
}

bool IsLink(const std::string& path) {
  std::error_code error;
  return fs::is_symlink(path, error);
}

// Whether another file can take its name: there may be a mount on it, as
// containers have.
bool IsReplaceable(const std::string& target, const struct stat& old) {
  struct statx facts;
  const bool mounted =
      statx(AT_FDCWD, target.c_str(), 0, STATX_BASIC_STATS, &facts) == 0 &&
      (facts.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  return S_ISREG(old.st_mode) && !IsLink(target) && !mounted;
}

// Opens a file that was not there, so that nobody can have put a link at its
// name; `name` becomes that.
jit::UniqueFd OpenBeside(const std::string& target, mode_t mode,
                         std::string& name) {
  constexpr int kTries = 1000;        // What crashed processes left.
  constexpr size_t kNameBytes = 200;  // Longer ones have no room for more.
  const fs::path path = target;
  const std::string start =
      path.parent_path() / path.filename().string().substr(0, kNameBytes);
  jit::UniqueFd file;
  for (int i = 0; !file.ok() && i < kTries; ++i) {
    name = absl::StrCat(start, ".", getpid(), ".", i, ".part");
    file = jit::UniqueFd(
        open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
             mode));
    if (!file.ok() && errno != EEXIST) break;
  }
  return file;
}

// The same, with the owner and the mode of `old`; until it has them, nobody
// else may read it.
jit::UniqueFd OpenLike(const struct stat& old, const std::string& target,
                       std::string& name) {
  jit::UniqueFd file = OpenBeside(target, S_IRUSR | S_IWUSR, name);
  if (!file.ok()) return file;
  struct stat made;
  const bool given =
      fstat(file.get(), &made) == 0 &&
      ((made.st_uid == old.st_uid && made.st_gid == old.st_gid) ||
       fchown(file.get(), old.st_uid, old.st_gid) == 0);
  if (given && fchmod(file.get(), old.st_mode & 0777) == 0) return file;
  const int error = errno;
  unlink(name.c_str());
  errno = error;
  return jit::UniqueFd();
}

bool IsForbidden(int error) {
  return error == EACCES || error == EPERM || error == EROFS;
}

}  // namespace

std::string FollowLinks(const std::string& path) {
  constexpr int kMostLinks = 40;  // As many as the kernel follows.
  fs::path target = path;
  for (int i = 0; i < kMostLinks && IsLink(target); ++i) {
    const fs::path folder = target.parent_path();
    struct statfs facts;
    if (statfs(folder.empty() ? "." : folder.c_str(), &facts) != 0 ||
        facts.f_type == PROC_SUPER_MAGIC) {
      break;
    }
    std::error_code error;
    target = folder / fs::read_symlink(target, error);
  }
  return target;
}

absl::StatusOr<NewFile> NewFile::Create(const std::string& path) {
  if (path == "-") {
    jit::UniqueFd copy(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!copy.ok()) return CannotWrite("standard output");
    return NewFile("standard output", "", std::move(copy));
  }
  struct stat old;
  const bool exists = stat(path.c_str(), &old) == 0;
  if (!exists && (errno != ENOENT || path.empty())) return CannotWrite(path);
  // A folder lets files be replaced that do not let themselves be written.
  if (exists && faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) {
    return CannotWrite(path);
  }
  const std::string target = FollowLinks(path);
  if (!exists || IsReplaceable(target, old)) {
    std::string temporary;
    jit::UniqueFd file = exists ? OpenLike(old, target, temporary)
                                : OpenBeside(target, 0666, temporary);
    if (file.ok()) {
      return NewFile(target, std::move(temporary), std::move(file));
    }
    if (!exists || !IsForbidden(errno)) return CannotWrite(path);
  }
  jit::UniqueFd file(open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!file.ok()) return CannotWrite(path);
  return NewFile(path, "", std::move(file));
}

NewFile::~NewFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status NewFile::Write(absl::string_view bytes) {
  bytes_ += static_cast<int64_t>(bytes.size());
  const absl::Status status = jit::WriteAll(file_.get(), bytes);
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(path_, ": ", status.message()));
}

absl::Status NewFile::Finish() {
  if (!temporary_.empty() && fsync(file_.get()) != 0) return CannotWrite(path_);
  file_.Reset();
  return absl::OkStatus();
}

absl::Status NewFile::Keep() {
  if (file_.ok()) RETURN_IF_ERROR(Finish());
  if (temporary_.empty()) return absl::OkStatus();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return CannotWrite(path_);
  }
  temporary_.clear();
  return absl::OkStatus();
}

}  // namespace gemmd::cli
