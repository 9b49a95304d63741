#include "clients/cli/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
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

// A link leads to the file that is meant.
std::string FollowLinks(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

absl::Status CannotWrite(const std::string& path) {
  return jit::ErrnoStatus(errno, absl::StrCat("write ", path));
}

// Opens a file that was not there, so that nobody can have put a link at its
// name; `name` becomes that.
jit::UniqueFd OpenBeside(const std::string& target, std::string& name) {
  constexpr int kTries = 100;  // What crashed processes left.
  jit::UniqueFd file;
  for (int i = 0; !file.ok() && i < kTries; ++i) {
    name = absl::StrCat(target, ".", getpid(), ".", i, ".part");
    file = jit::UniqueFd(
        open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
             0666));
    if (!file.ok() && errno != EEXIST) break;
  }
  return file;
}

}  // namespace

absl::StatusOr<NewFile> NewFile::Create(const std::string& path) {
  if (path == "-") {
    jit::UniqueFd copy(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!copy.ok()) return CannotWrite("standard output");
    return NewFile("standard output", "", std::move(copy));
  }
  struct stat facts;
  if (stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
    jit::UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.ok()) return CannotWrite(path);
    return NewFile(path, "", std::move(file));
  }
  const std::string target = FollowLinks(path);
  std::string temporary;
  jit::UniqueFd file = OpenBeside(target, temporary);
  if (!file.ok()) return CannotWrite(path);
  return NewFile(target, std::move(temporary), std::move(file));
}

NewFile::~NewFile() {
  if (file_.ok() && !temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status NewFile::Write(absl::string_view bytes) {
  bytes_ += static_cast<int64_t>(bytes.size());
  const absl::Status status = jit::WriteAll(file_.get(), bytes);
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(path_, ": ", status.message()));
}

absl::Status NewFile::Keep() {
  if (temporary_.empty()) return absl::OkStatus();
  if (fsync(file_.get()) != 0 ||
      std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return CannotWrite(path_);
  }
  temporary_.clear();
  return absl::OkStatus();
}

}  // namespace gemmd::cli
