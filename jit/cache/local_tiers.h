// The directories of a cache, asked one after the other: layers, which are
// only read, then the writable one, behind which kernels wait to be written.
// Thread-safe.
#ifndef GEMMD_JIT_CACHE_LOCAL_TIERS_H_
#define GEMMD_JIT_CACHE_LOCAL_TIERS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/measured_tier.h"
#include "jit/cache/memory_store.h"
#include "jit/cache/refused_cubins.h"
#include "jit/cache/use_record.h"
#include "jit/cache/write_behind.h"

namespace gemmd::jit {

class LocalTiers {
 public:
  struct Options {
    std::string directory;               // Writable; empty: none.
    std::optional<int64_t> limit_bytes;  // As in QuotaOptions.
    std::vector<std::string> layers;
    // Told of a load that failed, by the tier's name and the entry's key.
    std::function<void(const std::string&, const std::string&,
                       const absl::Status&)>
        load_failed;
    // Told of a kernel that was not written, on a thread of this.
    std::function<void(const absl::Status&)> write_failed;
    // Told of a start at which `limit_bytes` took kernels away, on a thread of
    // this.
    std::function<void(const Collection&)> collected;
  };

  explicit LocalTiers(Options options);

  // Null when no directory has it, or only what a device refused. Counts as a
  // use of the entry and in statistics.
  KernelPointer Load(const std::string& key, Look look = Look::kFirst);
  // The same without counting.
  KernelPointer Peek(const std::string& key) const;

  // Whether a directory that is only read has it.
  bool InLayer(const std::string& key) const;

  // Writes the kernel behind the caller; see WriteBehind::Write.
  void Store(KernelPointer kernel, std::shared_ptr<const void> release);
  // Notes a use of a kernel that was served from elsewhere. Cheap.
  void NoteUse(const std::string& key) { uses_.Note(key); }

  // OK when one was removed; NOT_FOUND when there was none to remove.
  absl::Status Remove(const std::string& key);
  // After a device refused `kernel`: no directory brings it again.
  void Quarantine(const CompiledKernel& kernel);
  bool refused(const CompiledKernel& kernel) const {
    return refused_.Contains(kernel);
  }

  // In order of keys, at most `limit` of those after `after`: of `resident`,
  // which need no look into a directory, and of all directories.
  std::vector<EntrySummary> List(const std::vector<KernelPointer>& resident,
                                 const std::string& after, size_t limit) const;

  const std::vector<std::shared_ptr<DiskStore>>& stores() const {
    return stores_;
  }
  bool writable() const { return writable_ != nullptr; }
  // Why the directory takes no kernels, of which Store tells nobody but
  // write_failed.
  absl::Status CheckWritable() const {
    return writable() ? writable_->CheckWritable() : absl::OkStatus();
  }
  std::vector<TierStatistics> statistics() const;
  // Waits until nothing waits to be written.
  void Flush();

 private:
  const Options options_;
  const std::vector<std::shared_ptr<DiskStore>> stores_;
  const std::shared_ptr<DiskStore> writable_;  // The last store, or null.
  std::vector<std::unique_ptr<MeasuredTier>> tiers_;  // Of stores_.
  RefusedCubins refused_;
  UseRecord uses_;
  std::unique_ptr<WriteBehind> writer_;  // Null when nothing is writable.
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_LOCAL_TIERS_H_
