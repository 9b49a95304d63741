#include "jit/cache/publish.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/file.h"
#include "jit/base/folder.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/cache/key_lock.h"

namespace gemmd::jit {
namespace {

constexpr absl::Duration kLockTimeout = absl::Seconds(10);
constexpr absl::Duration kLockPoll = absl::Milliseconds(2);

// Opens a file that nobody else writes to, to become `target`; `name` is its
// own. Processes of other machines and containers, which have the same number,
// may be writing or may have left such a file.
UniqueFd OpenTemporary(const UniqueFd& folder, const std::string& target,
                       std::string& name) {
  static std::atomic<int64_t> next = 0;
  UniqueFd file;
  do {
    name = absl::StrCat(target.substr(0, 16), ".", getpid(), ".",
                        next.fetch_add(1));
    file = UniqueFd(openat(folder.get(), name.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           0600));
  } while (!file.ok() && errno == EEXIST);
  return file;
}

}  // namespace

absl::StatusOr<UniqueFd> LockDirectory(const std::string& directory) {
  ASSIGN_OR_RETURN(UniqueFd file, OpenOwnFile(directory, kLockFile));
  if (!IsLocalFileSystem(directory)) return file;
  const absl::Time end = SteadyNow() + kLockTimeout;
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return ErrnoStatus(errno, "lock the cache");
    }
    if (SteadyNow() >= end) {
      return absl::UnavailableError("another process holds the cache's lock");
    }
    absl::SleepFor(kLockPoll);
  }
  return file;
}

absl::Status PublishFile(const std::string& directory, const char* folder,
                         const std::string& name, absl::string_view bytes,
                         const PublishHook& hook) {
  const auto reach = [&hook](PublishStep step) {
    return hook ? hook(step) : absl::OkStatus();
  };
  ASSIGN_OR_RETURN(const UniqueFd target,
                   OpenFolder(directory, folder, FolderAccess::kCreate));
  ASSIGN_OR_RETURN(
      const UniqueFd temporary,
      OpenFolder(directory, kTemporaryFolder, FolderAccess::kCreate));
  RETURN_IF_ERROR(reach(PublishStep::kBeforeWrite));
  std::string temporary_name;
  const UniqueFd file = OpenTemporary(temporary, name, temporary_name);
  if (!file.ok()) return ErrnoStatus(errno, "create a file of the cache");
  const auto publish = [&]() -> absl::Status {
    const size_t half = bytes.size() / 2;
    RETURN_IF_ERROR(WriteAll(file.get(), bytes.substr(0, half)));
    RETURN_IF_ERROR(reach(PublishStep::kHalfWritten));
    RETURN_IF_ERROR(WriteAll(file.get(), bytes.substr(half)));
    RETURN_IF_ERROR(reach(PublishStep::kBeforeSync));
    // The bytes must be on disk before the name is, else a power cut could
    // leave the name of an empty file.
    if (fsync(file.get()) != 0) return ErrnoStatus(errno, "flush a file");
    RETURN_IF_ERROR(reach(PublishStep::kBeforeRename));
    // Readers find the old file, none, or all of the new one.
    if (renameat(temporary.get(), temporary_name.c_str(), target.get(),
                 name.c_str()) != 0) {
      return ErrnoStatus(errno, "publish a file of the cache");
    }
    RETURN_IF_ERROR(reach(PublishStep::kAfterRename));
    // The name itself must survive a power cut.
    if (fsync(target.get()) != 0) return ErrnoStatus(errno, "flush a folder");
    return absl::OkStatus();
  };
  absl::Status status = publish();
  if (!status.ok()) unlinkat(temporary.get(), temporary_name.c_str(), 0);
  return status;
}

}  // namespace gemmd::jit
