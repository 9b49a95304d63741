// Compiled kernels in a directory: one file per key.
//
//   entries/<key>   the kernels (jit/cache/entry.h); the time of modification
//                   is when the entry was last used
//   temporary/      files being written; whatever a crash leaves is swept
//   tuning/         see jit/cache/tuning_store.h
//   quarantine/     damaged entries, kept aside for people, at most 16
//   identity/       see jit/compile/file_digest.h
//   lock            held by whoever writes (jit/cache/publish.h), and what
//                   writers tell each other (jit/cache/ledger.h)
//   compiling       see jit/cache/key_lock.h
//
// All files together stay within a limit (jit/cache/quota.h). The directory
// may vanish, fill up or be read-only at any time. Thread-safe, and safe
// between processes.
#ifndef GEMMD_JIT_CACHE_DISK_STORE_H_
#define GEMMD_JIT_CACHE_DISK_STORE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "jit/base/file.h"
#include "jit/cache/entry.h"
#include "jit/cache/publish.h"
#include "jit/cache/quota.h"
#include "jit/cache/tier.h"
#include "jit/compile/file_notes.h"

namespace gemmd::jit {

class DiskStore final : public Tier {
 public:
  struct Options {
    std::string directory;
    std::optional<int64_t> limit_bytes;  // As in QuotaOptions.
    // Of another owner perhaps, and never written: a layer of an image.
    bool read_only = false;
    // Called at each step of Store; an error stands for one of the system.
    PublishHook at_step;
  };

  explicit DiskStore(Options options) : options_(std::move(options)) {}

  // Counts as a use of the entry. Of a damaged one: DATA_LOSS, and the entry
  // is in quarantine.
  absl::StatusOr<CompiledKernel> Load(const std::string& key) override;

  // The same without changing anything.
  absl::StatusOr<CompiledKernel> Peek(const std::string& key) const;

  // Reads no more than the start of the entry, and changes nothing.
  absl::StatusOr<EntrySummary> Summary(const std::string& key) const;

  // The same of each of many entries, in order, with its place in `keys`.
  void Summaries(
      const std::vector<std::string>& keys,
      absl::FunctionRef<void(size_t, absl::StatusOr<EntrySummary>)> take) const;

  // What is equal as long as the file of an entry is the same, of each of
  // `keys`; nothing of one that is not there or changed a moment ago.
  std::vector<std::optional<FileStamp>> Stamps(
      const std::vector<std::string>& keys) const;

  // Afterwards readers find all of it, whatever crashes.
  absl::Status Store(const CompiledKernel& kernel) override;

  // Notes that the entries were used now; those that are not there are passed
  // over.
  void MarkUsed(const std::vector<std::string>& keys);

  // Puts the entry aside.
  absl::Status Quarantine(const std::string& key);

  // NOT_FOUND when there is no entry.
  absl::Status Remove(const std::string& key) override;

  // Removes what crashes left and, least recently used first, what is above
  // `limit_bytes` (nothing: the store's own limit).
  absl::StatusOr<Collection> Collect(std::optional<int64_t> limit_bytes = {});

  // Why entries cannot be read: NOT_FOUND when there is no such directory,
  // PERMISSION_DENIED when it is not to be trusted. Names no path.
  absl::Status CheckReadable() const;

  // Why none can be stored. Makes the directory where there is none.
  absl::Status CheckWritable() const;

  // Keys of all entries, in no order.
  absl::StatusOr<std::vector<std::string>> ReadKeys() const;
  // The same, empty when the directory cannot be read.
  std::vector<std::string> Keys() const {
    return ReadKeys().value_or(std::vector<std::string>());
  }

  // A time that changes when an entry comes or goes, but for changes of a
  // moment ago; InfiniteFuture, which is never equal to what it was, then.
  absl::Time ChangedAt() const;

  // Bytes on disk of all files.
  int64_t BytesUsed() const;

  const std::string& directory() const { return options_.directory; }

 private:
  FolderAccess access() const {
    return options_.read_only ? FolderAccess::kRead : FolderAccess::kOwn;
  }
  absl::StatusOr<UniqueFd> OpenEntries() const {
    return OpenFolder(options_.directory, kEntriesFolder, access());
  }
  absl::StatusOr<UniqueFd> OpenToWrite(const char* name) const;
  QuotaOptions quota() const {
    return {.directory = options_.directory,
            .limit_bytes = options_.limit_bytes};
  }

  const Options options_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_DISK_STORE_H_
