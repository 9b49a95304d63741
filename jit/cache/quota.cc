#include "jit/cache/quota.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/cache/key_lock.h"
#include "jit/cache/ledger.h"

namespace gemmd::jit {
namespace {

// Where locks cannot be trusted, a temporary file older than this is stale.
constexpr absl::Duration kStale = absl::Hours(1);
constexpr int64_t kTuningShare = 8;    // One of so many parts of the limit.
constexpr size_t kEvictionShare = 64;  // One of so many entries goes besides.

int64_t Sum(const std::vector<FileUse>& files) {
  int64_t bytes = 0;
  for (const FileUse& file : files) bytes += file.bytes;
  return bytes;
}

// When the folder of entries was last changed, by anybody.
int64_t ChangedNs(const std::string& directory) {
  struct stat facts;
  const std::string path = absl::StrCat(directory, "/", kEntriesFolder);
  if (stat(path.c_str(), &facts) != 0) return 0;
  return absl::ToUnixNanos(absl::TimeFromTimespec(facts.st_mtim));
}

// One writer's time with a directory, under its lock.
class Session {
 public:
  static absl::StatusOr<Session> Open(const QuotaOptions& options) {
    RETURN_IF_ERROR(
        OpenFolder(options.directory, kEntriesFolder, FolderAccess::kCreate)
            .status());
    ASSIGN_OR_RETURN(UniqueFd lock, LockDirectory(options.directory));
    Session session(options, std::move(lock));
    // The ledger takes room too.
    session.Save();
    return session;
  }

  int64_t limit_bytes() const {
    return ledger_.limit_bytes.value_or(kDefaultLimitBytes);
  }

  bool knows_use() const { return ledger_.used_bytes.has_value(); }

  absl::Status Sweep() const {
    ASSIGN_OR_RETURN(
        const UniqueFd folder,
        OpenFolder(directory_, kTemporaryFolder, FolderAccess::kCreate));
    // Writers hold the lock, so what lies here was left by a crash.
    for (const FileUse& file : UsesIn(folder)) {
      if (locked_ || absl::Now() - file.used > kStale) {
        unlinkat(folder.get(), file.name.c_str(), 0);
      }
    }
    return absl::OkStatus();
  }

  // Looks at every file and makes room for `needed_bytes` of `folder`.
  absl::Status MakeRoom(int64_t limit_bytes, int64_t needed_bytes,
                        absl::string_view folder) {
    int64_t used = BytesUsed(directory_, FolderAccess::kOwn);
    collection_.bytes_before = used;
    const int64_t tuning_limit = limit_bytes / kTuningShare -
                                 (folder == kTuningFolder ? needed_bytes : 0);
    RETURN_IF_ERROR(Evict(kTuningFolder, tuning_limit, used));
    if (used + needed_bytes > limit_bytes) {
      RETURN_IF_ERROR(
          Remove(kQuarantineFolder, limit_bytes - needed_bytes, 0, used));
    }
    if (used + needed_bytes > limit_bytes) {
      RETURN_IF_ERROR(Remove(kEntriesFolder, limit_bytes - needed_bytes,
                             kEvictionShare, used));
    }
    ledger_.used_bytes = used;
    return absl::OkStatus();
  }

  // What MakeRoom did.
  const Collection& collection() const { return collection_; }

  void Add(int64_t bytes) {
    if (knows_use()) *ledger_.used_bytes += bytes;
    Save();
  }
  int64_t used_bytes() const { return ledger_.used_bytes.value_or(0); }

  void Save() {
    ledger_.changed_ns = ChangedNs(directory_);
    WriteLedger(lock_.get(), ledger_);
  }

 private:
  Session(const QuotaOptions& options, UniqueFd lock)
      : directory_(options.directory),
        lock_(std::move(lock)),
        locked_(IsLocalFileSystem(directory_)),
        ledger_(ReadLedger(lock_.get())) {
    if (options.limit_bytes.has_value()) {
      ledger_.limit_bytes = options.limit_bytes;
    }
    // Without a lock that can be trusted, nobody's word is.
    if (!locked_ || ledger_.changed_ns != ChangedNs(directory_)) {
      ledger_.used_bytes.reset();
    }
  }

  // By the clock of whoever keeps the files, which stamped the ledger a moment
  // ago, or by this machine's where that is ahead.
  absl::Time Now() const {
    struct stat facts;
    if (fstat(lock_.get(), &facts) != 0) return absl::Now();
    return std::max(absl::Now(), absl::TimeFromTimespec(facts.st_mtim));
  }

  // Removes files of `folder`, least recently used first, until `used` is at
  // most `target`, and then one of `share` (0: none) besides.
  absl::Status Remove(const char* folder, int64_t target, size_t share,
                      int64_t& used) {
    ASSIGN_OR_RETURN(const UniqueFd open,
                     OpenFolder(directory_, folder, FolderAccess::kCreate));
    const std::vector<FileUse> files = UsesIn(open, Now());
    size_t besides = share == 0 ? 0 : files.size() / share;
    for (const FileUse& file : files) {
      if (used <= target && besides-- == 0) break;
      if (unlinkat(open.get(), file.name.c_str(), 0) != 0) continue;
      used -= file.bytes;
      collection_.entries_removed +=
          folder == absl::string_view(kEntriesFolder);
    }
    return absl::OkStatus();
  }

  // Removes files of `folder` until they have at most `limit` together.
  absl::Status Evict(const char* folder, int64_t limit, int64_t& used) {
    const absl::StatusOr<UniqueFd> open =
        OpenFolder(directory_, folder, FolderAccess::kOwn);
    if (!open.ok()) return absl::OkStatus();
    const int64_t above = Sum(UsesIn(*open)) - limit;
    if (above <= 0) return absl::OkStatus();
    return Remove(folder, used - above, 0, used);
  }

  std::string directory_;
  UniqueFd lock_;
  bool locked_;
  Ledger ledger_;
  Collection collection_;
};

}  // namespace

absl::Status WriteWithinQuota(const QuotaOptions& options, const char* folder,
                              const std::string& name, absl::string_view bytes,
                              const PublishHook& hook,
                              const std::function<bool()>& wanted) {
  ASSIGN_OR_RETURN(Session session, Session::Open(options));
  if (wanted != nullptr && !wanted()) return absl::OkStatus();
  RETURN_IF_ERROR(session.Sweep());
  const int64_t limit = session.limit_bytes();
  const int64_t needed = BytesOnDisk(static_cast<int64_t>(bytes.size()));
  if (limit > 0 && needed > limit) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a file of ", needed, " bytes is larger than the cache: ", limit));
  }
  const bool tuning = folder == absl::string_view(kTuningFolder);
  if (limit > 0 && (!session.knows_use() || tuning ||
                    session.used_bytes() + needed > limit)) {
    RETURN_IF_ERROR(session.MakeRoom(limit, needed, folder));
  }
  session.Add(needed);
  // A writer that comes second replaces the file by an equal one.
  RETURN_IF_ERROR(PublishFile(options.directory, folder, name, bytes, hook));
  session.Save();
  return absl::OkStatus();
}

absl::StatusOr<Collection> CollectGarbage(const QuotaOptions& options,
                                          std::optional<int64_t> limit_bytes) {
  ASSIGN_OR_RETURN(Session session, Session::Open(options));
  RETURN_IF_ERROR(session.Sweep());
  const int64_t limit = limit_bytes.value_or(session.limit_bytes());
  if (limit > 0) RETURN_IF_ERROR(session.MakeRoom(limit, 0, ""));
  session.Save();
  return session.collection();
}

absl::StatusOr<int64_t> LimitBytes(const QuotaOptions& options) {
  ASSIGN_OR_RETURN(const Session session, Session::Open(options));
  return session.limit_bytes();
}

int64_t LeastLimitBytes(const std::string& directory, int64_t entry_bytes,
                        int64_t tuning_bytes) {
  const absl::StatusOr<UniqueFd> tuning =
      OpenFolder(directory, kTuningFolder, FolderAccess::kOwn);
  const int64_t all_tuning_bytes =
      tuning_bytes + (tuning.ok() ? Sum(UsesIn(*tuning)) : 0);
  return std::max(
      BytesUsed(directory, FolderAccess::kOwn) + entry_bytes + tuning_bytes,
      kTuningShare * all_tuning_bytes);
}

int64_t BytesUsed(const std::string& directory, FolderAccess access) {
  int64_t bytes = 0;
  for (const char* name : {kLockFile, kKeyLockFile}) {
    struct stat facts;
    const std::string path = absl::StrCat(directory, "/", name);
    if (lstat(path.c_str(), &facts) == 0) bytes += BytesOnDisk(facts.st_size);
  }
  for (const char* name : {kEntriesFolder, kTemporaryFolder, kQuarantineFolder,
                           kTuningFolder, kIdentityFolder}) {
    const absl::StatusOr<UniqueFd> folder = OpenFolder(directory, name, access);
    if (folder.ok()) bytes += Sum(UsesIn(*folder));
  }
  return bytes;
}

}  // namespace gemmd::jit
