// Compiled kernels in a directory: one file per key.
//
//   entries/<key>   the kernels (jit/cache/entry.h); the time of modification
//   is
//                   when the entry was last used
//   temporary/      files being written; whatever a crash leaves is swept
//   tuning/         see jit/cache/tuning_store.h; never evicted
//   quarantine/     damaged entries, kept aside for people, at most 16
//   lock            held by whoever writes
//   compiling       see jit/cache/key_lock.h
//
// All files together stay within a limit: room is made before a byte is
// written, least recently used entries first. The directory may vanish, fill
// up or be read-only at any time. Thread-safe, and safe between processes.
#ifndef GEMMD_JIT_CACHE_DISK_STORE_H_
#define GEMMD_JIT_CACHE_DISK_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "jit/base/file.h"
#include "jit/cache/kernel_cache.h"
#include "jit/cache/publish.h"
#include "jit/cache/tier.h"

namespace gemmd::jit {

class DiskStore final : public Tier {
 public:
  struct Options {
    std::string directory;
    int64_t limit_bytes = 0;  // Of all files together; 0: none.
    // Of another owner perhaps, and never written: a layer of an image.
    bool read_only = false;
    // Called at each step of Store; an error stands for one of the system.
    PublishHook at_step;
  };

  explicit DiskStore(Options options) : options_(std::move(options)) {}

  // Of a damaged entry: DATA_LOSS, and the entry is in quarantine.
  absl::StatusOr<CompiledKernel> Load(const std::string& key) override;

  // Afterwards readers find all of it, whatever crashes.
  absl::Status Store(const CompiledKernel& kernel) override;

  // Puts the entry aside.
  absl::Status Quarantine(const std::string& key);

  // NOT_FOUND when there is no entry.
  absl::Status Remove(const std::string& key);

  // Removes what crashes left and, least recently used first, what is above
  // `limit_bytes` (0: the store's own limit).
  absl::Status Collect(int64_t limit_bytes);

  // Why entries cannot be read: NOT_FOUND when there is no such directory,
  // PERMISSION_DENIED when it is not to be trusted. Names no path.
  absl::Status CheckReadable() const { return Open("entries").status(); }

  // Keys of all entries, sorted; empty when the directory cannot be read.
  std::vector<std::string> Keys() const;

  // Bytes on disk of all files.
  int64_t BytesUsed() const;

  const std::string& directory() const { return options_.directory; }

 private:
  absl::StatusOr<UniqueFd> Open(const char* name) const;
  absl::StatusOr<UniqueFd> OpenToWrite(const char* name) const;
  absl::Status SweepAndMakeRoom(int64_t limit_bytes, int64_t needed_bytes);

  const Options options_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_DISK_STORE_H_
