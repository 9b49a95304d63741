#include "jit/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::jit {

void UniqueFd::Reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

namespace {

// What the system refuses the process is trouble of its own. As codes of an
// answer, these tell a client of a role that he lacks, or of a kernel.
absl::StatusCode CodeOf(int error) {
  const absl::StatusCode code = absl::ErrnoToStatusCode(error);
  switch (code) {
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnknown:
      return absl::StatusCode::kInternal;
    default:
      return code;
  }
}

}  // namespace

absl::Status ErrnoStatus(int error, absl::string_view what) {
  return absl::Status(CodeOf(error),
                      absl::StrCat("cannot ", what, ": ",
                                   std::generic_category().message(error)));
}

namespace {

struct OpenFile {
  UniqueFd file;
  int64_t bytes = 0;
};

absl::StatusOr<OpenFile> OpenFileAt(int folder, const std::string& name) {
  // O_NONBLOCK: opening a FIFO that someone put there must not wait.
  OpenFile open;
  open.file = UniqueFd(openat(folder, name.c_str(),
                              O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!open.file.ok()) {
    if (errno == ELOOP) return absl::DataLossError("file is a link");
    return ErrnoStatus(errno, "open a file");
  }
  struct stat facts;
  if (fstat(open.file.get(), &facts) != 0) {
    return ErrnoStatus(errno, "stat a file");
  }
  if (!S_ISREG(facts.st_mode)) return absl::DataLossError("not a regular file");
  open.bytes = facts.st_size;
  return open;
}

absl::StatusOr<std::string> ReadStart(int file, size_t size) {
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = read(file, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read a file");
    if (got == 0) break;  // Cut off meanwhile; a checksum will tell.
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> ReadFileAt(int folder, const std::string& name,
                                       int64_t limit_bytes) {
  ASSIGN_OR_RETURN(const OpenFile open, OpenFileAt(folder, name));
  if (open.bytes > limit_bytes) {
    return absl::DataLossError(
        absl::StrCat("file has ", open.bytes, " bytes; limit: ", limit_bytes));
  }
  return ReadStart(open.file.get(), static_cast<size_t>(open.bytes));
}

void ReadStartsAt(
    int folder, absl::Span<const std::string> names, size_t bytes,
    absl::FunctionRef<void(size_t, absl::StatusOr<std::string>)> take) {
  constexpr size_t kAtATime = 32;
  for (size_t first = 0; first < names.size(); first += kAtATime) {
    std::vector<absl::StatusOr<OpenFile>> files;
    for (const std::string& name : names.subspan(first, kAtATime)) {
      files.push_back(OpenFileAt(folder, name));
      if (!files.back().ok()) continue;
      posix_fadvise(files.back()->file.get(), 0, static_cast<off_t>(bytes),
                    POSIX_FADV_WILLNEED);
    }
    for (size_t i = 0; i < files.size(); ++i) {
      take(
          first + i,
          files[i].ok()
              ? ReadStart(files[i]->file.get(),
                          std::min(bytes, static_cast<size_t>(files[i]->bytes)))
              : files[i].status());
    }
  }
}

absl::StatusOr<std::string> ReadStartAt(int folder, const std::string& name,
                                        size_t bytes) {
  ASSIGN_OR_RETURN(const OpenFile open, OpenFileAt(folder, name));
  return ReadStart(open.file.get(),
                   std::min(bytes, static_cast<size_t>(open.bytes)));
}

absl::Status CheckEnds(int file) {
  struct stat facts;
  if (fstat(file, &facts) != 0) return ErrnoStatus(errno, "stat a file");
  const bool device = S_ISCHR(facts.st_mode) || S_ISBLK(facts.st_mode);
  if (!device || isatty(file) == 1) return absl::OkStatus();
  return absl::InvalidArgumentError("it is a device; allowed: a file, a pipe");
}

absl::StatusOr<std::string> ReadAll(int file, int64_t limit_bytes) {
  constexpr size_t kChunk = 65536;
  std::string bytes;
  while (true) {
    const size_t done = bytes.size();
    bytes.resize(done + kChunk);
    const ssize_t got = read(file, bytes.data() + done, kChunk);
    bytes.resize(done + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read a file");
    if (got == 0) return bytes;
    if (static_cast<int64_t>(bytes.size()) > limit_bytes) {
      return absl::DataLossError(
          absl::StrCat("file has more than ", limit_bytes, " bytes"));
    }
  }
}

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t limit_bytes) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) return ErrnoStatus(errno, "open a file");
  return ReadAll(file.get(), limit_bytes);
}

absl::Status WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return ErrnoStatus(errno, "write a file");
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return absl::OkStatus();
}

}  // namespace gemmd::jit
