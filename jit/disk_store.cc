#include "jit/disk_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/cubin.h"
#include "jit/entry.h"
#include "jit/sha256.h"
#include "jit/status.h"

namespace gemmd::jit {
namespace {

constexpr char kEntries[] = "entries";
constexpr char kTemporary[] = "temporary";
constexpr char kQuarantine[] = "quarantine";
constexpr int64_t kMaxEntryBytes = int64_t{64} << 20;
constexpr size_t kMaxQuarantined = 16;
constexpr absl::Duration kLockTimeout = absl::Seconds(10);
constexpr absl::Duration kLockPoll = absl::Milliseconds(2);

// Names in `folder`, without "." and "..".
std::vector<std::string> NamesIn(int folder) {
  // The stream owns the descriptor it is given.
  const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return {};
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(copy), closedir);
  std::vector<std::string> names;
  while (stream != nullptr) {
    const dirent* const entry = readdir(stream.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

// Keeps the newest kMaxQuarantined files.
void PruneQuarantine(int folder) {
  std::vector<std::pair<int64_t, std::string>> files;
  for (const std::string& name : NamesIn(folder)) {
    struct stat facts;
    if (fstatat(folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0) {
      files.emplace_back(facts.st_ctim.tv_sec, name);
    }
  }
  if (files.size() <= kMaxQuarantined) return;
  std::sort(files.begin(), files.end());
  files.resize(files.size() - kMaxQuarantined);
  for (const auto& [time, name] : files) unlinkat(folder, name.c_str(), 0);
}

}  // namespace

absl::StatusOr<UniqueFd> DiskStore::OpenFolder(const char* name,
                                               bool create) const {
  const std::string path = absl::StrCat(directory_, "/", name);
  if (create) {
    std::error_code error;
    std::filesystem::create_directories(directory_, error);
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, "create a cache folder");
    }
  }
  UniqueFd folder(
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.ok()) return ErrnoStatus(errno, "open a cache folder");
  struct stat facts;
  if (fstat(folder.get(), &facts) != 0) {
    return ErrnoStatus(errno, "stat a cache folder");
  }
  if (facts.st_uid != geteuid() || (facts.st_mode & 022) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("cache folder ", name,
                     " belongs to another user or can be written by others"));
  }
  return folder;
}

absl::StatusOr<UniqueFd> DiskStore::Lock() const {
  UniqueFd file(open(absl::StrCat(directory_, "/lock").c_str(),
                     O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.ok()) return ErrnoStatus(errno, "open the cache's lock");
  const absl::Time end = absl::Now() + kLockTimeout;
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return ErrnoStatus(errno, "lock the cache");
    }
    if (absl::Now() >= end) {
      return absl::UnavailableError("another process holds the cache's lock");
    }
    absl::SleepFor(kLockPoll);
  }
  return file;
}

absl::StatusOr<CompiledKernel> DiskStore::Load(const std::string& key) {
  CHECK(IsSha256Hex(key));
  ASSIGN_OR_RETURN(const UniqueFd folder, OpenFolder(kEntries, false));
  const auto read = [&]() -> absl::StatusOr<CompiledKernel> {
    ASSIGN_OR_RETURN(const std::string bytes,
                     ReadFileAt(folder.get(), key, kMaxEntryBytes));
    ASSIGN_OR_RETURN(CompiledKernel kernel, DecodeEntry(bytes));
    if (kernel.key != key) {
      return absl::DataLossError("entry lies under another key");
    }
    RETURN_IF_ERROR(CheckCubin(kernel));
    return kernel;
  };
  absl::StatusOr<CompiledKernel> kernel = read();
  if (absl::IsDataLoss(kernel.status())) Quarantine(key).IgnoreError();
  return kernel;
}

absl::Status DiskStore::Store(const CompiledKernel& kernel) {
  CHECK(IsSha256Hex(kernel.key));
  ASSIGN_OR_RETURN(const UniqueFd entries, OpenFolder(kEntries, true));
  ASSIGN_OR_RETURN(const UniqueFd temporary, OpenFolder(kTemporary, true));
  ASSIGN_OR_RETURN(const UniqueFd lock, Lock());
  // Writers hold the lock, so whatever lies here was left by a crash.
  for (const std::string& name : NamesIn(temporary.get())) {
    unlinkat(temporary.get(), name.c_str(), 0);
  }

  const std::string name = absl::StrCat(kernel.key.substr(0, 16), ".", getpid(),
                                        ".", next_temporary_.fetch_add(1));
  const UniqueFd file(
      openat(temporary.get(), name.c_str(),
             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.ok()) return ErrnoStatus(errno, "create a cache entry");
  const auto publish = [&]() -> absl::Status {
    RETURN_IF_ERROR(WriteAll(file.get(), EncodeEntry(kernel)));
    // The bytes must be on disk before the name is, else a power cut could
    // leave the name of an empty file.
    if (fsync(file.get()) != 0) return ErrnoStatus(errno, "flush an entry");
    // Readers find the old entry, none, or all of the new one. A writer that
    // comes second replaces the entry by an equal one.
    if (renameat(temporary.get(), name.c_str(), entries.get(),
                 kernel.key.c_str()) != 0) {
      return ErrnoStatus(errno, "publish a cache entry");
    }
    // The name itself must survive a power cut.
    if (fsync(entries.get()) != 0) return ErrnoStatus(errno, "flush a folder");
    return absl::OkStatus();
  };
  absl::Status status = publish();
  if (!status.ok()) unlinkat(temporary.get(), name.c_str(), 0);
  return status;
}

absl::Status DiskStore::Quarantine(const std::string& key) {
  CHECK(IsSha256Hex(key));
  ASSIGN_OR_RETURN(const UniqueFd entries, OpenFolder(kEntries, false));
  absl::StatusOr<UniqueFd> quarantine = OpenFolder(kQuarantine, true);
  if (!quarantine.ok() || renameat(entries.get(), key.c_str(),
                                   quarantine->get(), key.c_str()) != 0) {
    // Better lost than met again.
    if (unlinkat(entries.get(), key.c_str(), 0) != 0) {
      return ErrnoStatus(errno, "remove a damaged entry");
    }
    return absl::OkStatus();
  }
  PruneQuarantine(quarantine->get());
  return absl::OkStatus();
}

absl::Status DiskStore::Remove(const std::string& key) {
  CHECK(IsSha256Hex(key));
  ASSIGN_OR_RETURN(const UniqueFd entries, OpenFolder(kEntries, false));
  if (unlinkat(entries.get(), key.c_str(), 0) != 0) {
    return ErrnoStatus(errno, "remove a cache entry");
  }
  return absl::OkStatus();
}

std::vector<std::string> DiskStore::Keys() const {
  const absl::StatusOr<UniqueFd> folder = OpenFolder(kEntries, false);
  if (!folder.ok()) return {};
  std::vector<std::string> keys;
  for (std::string& name : NamesIn(folder->get())) {
    if (IsSha256Hex(name)) keys.push_back(std::move(name));
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace gemmd::jit
