#include "jit/cache/disk_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/folder.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"
#include "jit/cache/entry.h"
#include "jit/cache/key_lock.h"
#include "jit/cache/publish.h"
#include "jit/compile/cubin.h"

namespace gemmd::jit {
namespace {

constexpr char kEntries[] = "entries";
constexpr char kQuarantine[] = "quarantine";
constexpr char kTuning[] = "tuning";
constexpr int64_t kMaxEntryBytes = int64_t{64} << 20;
constexpr size_t kMaxQuarantined = 16;
// Where locks cannot be trusted, a temporary file older than this is stale.
constexpr absl::Duration kStale = absl::Hours(1);

int64_t Sum(const std::vector<FileUse>& files) {
  int64_t bytes = 0;
  for (const FileUse& file : files) bytes += file.bytes;
  return bytes;
}

}  // namespace

absl::StatusOr<UniqueFd> DiskStore::Open(const char* name) const {
  return OpenFolder(
      options_.directory, name,
      options_.read_only ? FolderAccess::kRead : FolderAccess::kOwn);
}

absl::StatusOr<UniqueFd> DiskStore::OpenToWrite(const char* name) const {
  if (options_.read_only) {
    return absl::PermissionDeniedError("this directory is only read");
  }
  return OpenFolder(options_.directory, name, FolderAccess::kCreate);
}

absl::StatusOr<CompiledKernel> DiskStore::Load(const std::string& key) {
  CHECK(IsSha256Hex(key));
  ASSIGN_OR_RETURN(const UniqueFd folder, Open(kEntries));
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
  if (options_.read_only) return kernel;
  if (absl::IsDataLoss(kernel.status())) {
    Quarantine(key).IgnoreError();
  } else if (kernel.ok()) {
    utimensat(folder.get(), key.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  }
  return kernel;
}

absl::Status DiskStore::Store(const CompiledKernel& kernel) {
  CHECK(IsSha256Hex(kernel.key));
  const std::string bytes = EncodeEntry(kernel);
  RETURN_IF_ERROR(OpenToWrite(kEntries).status());
  ASSIGN_OR_RETURN(const UniqueFd lock, LockDirectory(options_.directory));
  RETURN_IF_ERROR(SweepAndMakeRoom(
      options_.limit_bytes, BytesOnDisk(static_cast<int64_t>(bytes.size()))));
  // A writer that comes second replaces the entry by an equal one.
  return PublishFile(options_.directory, kEntries, kernel.key, bytes,
                     options_.at_step);
}

absl::Status DiskStore::SweepAndMakeRoom(int64_t limit_bytes,
                                         int64_t needed_bytes) {
  // Writers hold the lock, so what lies here was left by a crash.
  const bool locked = IsLocalFileSystem(options_.directory);
  ASSIGN_OR_RETURN(const UniqueFd temporary, OpenToWrite(kTemporaryFolder));
  for (const FileUse& file : UsesIn(temporary)) {
    if (locked || absl::Now() - file.used > kStale) {
      unlinkat(temporary.get(), file.name.c_str(), 0);
    }
  }
  if (limit_bytes == 0) return absl::OkStatus();
  if (needed_bytes > limit_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("an entry of ", needed_bytes,
                     " bytes is larger than the cache: ", limit_bytes));
  }
  int64_t used = BytesUsed();
  // What is damaged goes before what is of use.
  for (const char* name : {kQuarantine, kEntries}) {
    ASSIGN_OR_RETURN(const UniqueFd folder, OpenToWrite(name));
    for (const FileUse& file : UsesIn(folder)) {
      if (used + needed_bytes <= limit_bytes) break;
      if (unlinkat(folder.get(), file.name.c_str(), 0) == 0) used -= file.bytes;
    }
  }
  return absl::OkStatus();
}

absl::Status DiskStore::Collect(int64_t limit_bytes) {
  RETURN_IF_ERROR(OpenToWrite(kEntries).status());
  ASSIGN_OR_RETURN(const UniqueFd lock, LockDirectory(options_.directory));
  return SweepAndMakeRoom(limit_bytes == 0 ? options_.limit_bytes : limit_bytes,
                          0);
}

absl::Status DiskStore::Quarantine(const std::string& key) {
  CHECK(IsSha256Hex(key));
  ASSIGN_OR_RETURN(const UniqueFd entries, OpenToWrite(kEntries));
  const absl::StatusOr<UniqueFd> quarantine = OpenToWrite(kQuarantine);
  if (!quarantine.ok() || renameat(entries.get(), key.c_str(),
                                   quarantine->get(), key.c_str()) != 0) {
    // Better lost than met again.
    if (unlinkat(entries.get(), key.c_str(), 0) != 0) {
      return ErrnoStatus(errno, "remove a damaged entry");
    }
    return absl::OkStatus();
  }
  std::vector<FileUse> files = UsesIn(*quarantine);
  for (size_t i = 0; i + kMaxQuarantined < files.size(); ++i) {
    unlinkat(quarantine->get(), files[i].name.c_str(), 0);
  }
  return absl::OkStatus();
}

absl::Status DiskStore::Remove(const std::string& key) {
  CHECK(IsSha256Hex(key));
  ASSIGN_OR_RETURN(const UniqueFd entries, Open(kEntries));
  if (options_.read_only) {
    return absl::PermissionDeniedError("this directory is only read");
  }
  if (unlinkat(entries.get(), key.c_str(), 0) != 0) {
    return ErrnoStatus(errno, "remove a cache entry");
  }
  return absl::OkStatus();
}

std::vector<std::string> DiskStore::Keys() const {
  const absl::StatusOr<UniqueFd> folder = Open(kEntries);
  if (!folder.ok()) return {};
  std::vector<std::string> keys;
  for (std::string& name : NamesIn(*folder)) {
    if (IsSha256Hex(name)) keys.push_back(std::move(name));
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

int64_t DiskStore::BytesUsed() const {
  int64_t bytes = 0;
  for (const char* name : {kEntries, kTemporaryFolder, kQuarantine, kTuning}) {
    const absl::StatusOr<UniqueFd> folder = Open(name);
    if (folder.ok()) bytes += Sum(UsesIn(*folder));
  }
  return bytes;
}

}  // namespace gemmd::jit
