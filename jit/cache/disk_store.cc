#include "jit/cache/disk_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/folder.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"
#include "jit/compile/cubin.h"

namespace gemmd::jit {
namespace {

constexpr int64_t kMaxEntryBytes = int64_t{64} << 20;
constexpr size_t kMaxQuarantined = 16;
// Two changes within the clock tick of a file system look like one.
constexpr absl::Duration kTick = absl::Seconds(2);

bool IsRecent(absl::Time change) {
  // In a time to come, before the clock was set back, is long ago.
  return absl::AbsDuration(absl::Now() - change) < kTick;
}

absl::StatusOr<CompiledKernel> Read(const UniqueFd& folder,
                                    const std::string& key) {
  ASSIGN_OR_RETURN(const std::string bytes,
                   ReadFileAt(folder.get(), key, kMaxEntryBytes));
  ASSIGN_OR_RETURN(CompiledKernel kernel, DecodeEntry(bytes));
  if (kernel.key != key) {
    return absl::DataLossError("entry lies under another key");
  }
  RETURN_IF_ERROR(CheckCubin(kernel));
  return kernel;
}

absl::StatusOr<EntrySummary> SummaryOf(const std::string& key,
                                       absl::string_view start) {
  ASSIGN_OR_RETURN(EntrySummary summary, DecodeSummary(start));
  if (summary.key != key) {
    return absl::DataLossError("entry lies under another key");
  }
  return summary;
}

absl::Status ReadOnly() {
  return absl::PermissionDeniedError("this directory is only read");
}

}  // namespace

absl::StatusOr<UniqueFd> DiskStore::OpenToWrite(const char* name) const {
  if (options_.read_only) return ReadOnly();
  return OpenFolder(options_.directory, name, FolderAccess::kCreate);
}

absl::StatusOr<CompiledKernel> DiskStore::Load(const std::string& key) {
  CHECK(IsSha256Hex(key));
  ASSIGN_OR_RETURN(const UniqueFd folder, OpenEntries());
  absl::StatusOr<CompiledKernel> kernel = Read(folder, key);
  if (options_.read_only) return kernel;
  if (absl::IsDataLoss(kernel.status())) {
    Quarantine(key).IgnoreError();
  } else if (kernel.ok()) {
    utimensat(folder.get(), key.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  }
  return kernel;
}

absl::StatusOr<CompiledKernel> DiskStore::Peek(const std::string& key) const {
  CHECK(IsSha256Hex(key));
  ASSIGN_OR_RETURN(const UniqueFd folder, OpenEntries());
  return Read(folder, key);
}

absl::StatusOr<EntrySummary> DiskStore::Summary(const std::string& key) const {
  CHECK(IsSha256Hex(key));
  ASSIGN_OR_RETURN(const UniqueFd folder, OpenEntries());
  ASSIGN_OR_RETURN(const std::string start,
                   ReadStartAt(folder.get(), key, kSummaryBytes));
  return SummaryOf(key, start);
}

void DiskStore::Summaries(
    const std::vector<std::string>& keys,
    absl::FunctionRef<void(size_t, absl::StatusOr<EntrySummary>)> take) const {
  for (const std::string& key : keys) CHECK(IsSha256Hex(key));
  const absl::StatusOr<UniqueFd> folder = OpenEntries();
  if (!folder.ok()) {
    for (size_t i = 0; i < keys.size(); ++i) take(i, folder.status());
    return;
  }
  ReadStartsAt(folder->get(), keys, kSummaryBytes,
               [&](size_t i, const absl::StatusOr<std::string>& start) {
                 if (start.ok()) {
                   take(i, SummaryOf(keys[i], *start));
                 } else {
                   take(i, start.status());
                 }
               });
}

std::vector<std::optional<FileStamp>> DiskStore::Stamps(
    const std::vector<std::string>& keys) const {
  std::vector<std::optional<FileStamp>> stamps(keys.size());
  const absl::StatusOr<UniqueFd> folder = OpenEntries();
  if (!folder.ok()) return stamps;
  for (size_t i = 0; i < keys.size(); ++i) {
    CHECK(IsSha256Hex(keys[i]));
    const absl::StatusOr<FileStamp> stamp = StampAt(folder->get(), keys[i]);
    if (stamp.ok() && !IsRecent(absl::FromUnixNanos(stamp->changed_ns))) {
      stamps[i] = *stamp;
    }
  }
  return stamps;
}

absl::Status DiskStore::Store(const CompiledKernel& kernel) {
  CHECK(IsSha256Hex(kernel.key));
  if (options_.read_only) return ReadOnly();
  return WriteWithinQuota(quota(), kEntriesFolder, kernel.key,
                          EncodeEntry(kernel), options_.at_step);
}

void DiskStore::MarkUsed(const std::vector<std::string>& keys) {
  if (options_.read_only) return;
  const absl::StatusOr<UniqueFd> folder = OpenEntries();
  if (!folder.ok()) return;
  for (const std::string& key : keys) {
    utimensat(folder->get(), key.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  }
}

absl::StatusOr<Collection> DiskStore::Collect(
    std::optional<int64_t> limit_bytes) {
  if (options_.read_only) return ReadOnly();
  return CollectGarbage(quota(), limit_bytes);
}

absl::Status DiskStore::Quarantine(const std::string& key) {
  CHECK(IsSha256Hex(key));
  ASSIGN_OR_RETURN(const UniqueFd entries, OpenToWrite(kEntriesFolder));
  const absl::StatusOr<UniqueFd> quarantine = OpenToWrite(kQuarantineFolder);
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
  ASSIGN_OR_RETURN(const UniqueFd entries, OpenEntries());
  if (options_.read_only) return ReadOnly();
  if (unlinkat(entries.get(), key.c_str(), 0) != 0) {
    return ErrnoStatus(errno, "remove a cache entry");
  }
  return absl::OkStatus();
}

absl::Status DiskStore::CheckReadable() const { return OpenEntries().status(); }

absl::Status DiskStore::CheckWritable() const {
  ASSIGN_OR_RETURN(const UniqueFd folder, OpenToWrite(kEntriesFolder));
  if (faccessat(folder.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
    return ErrnoStatus(errno,
                       absl::StrCat("write the folder ", kEntriesFolder));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> DiskStore::ReadKeys() const {
  ASSIGN_OR_RETURN(const UniqueFd folder, OpenEntries());
  ASSIGN_OR_RETURN(std::vector<std::string> keys, ReadNames(folder));
  std::erase_if(keys, [](const std::string& key) { return !IsSha256Hex(key); });
  return keys;
}

absl::Time DiskStore::ChangedAt() const {
  const absl::StatusOr<UniqueFd> folder = OpenEntries();
  struct stat facts;
  if (!folder.ok() || fstat(folder->get(), &facts) != 0) {
    return absl::InfinitePast();
  }
  const absl::Time changed = absl::TimeFromTimespec(facts.st_mtim);
  return IsRecent(changed) ? absl::InfiniteFuture() : changed;
}

int64_t DiskStore::BytesUsed() const {
  return jit::BytesUsed(options_.directory, access());
}

}  // namespace gemmd::jit
