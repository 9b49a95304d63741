// Compiled kernels in a directory: one file per key.
//
//   entries/<key>   the kernels (jit/entry.h)
//   temporary/      files being written; whatever a crash leaves is swept
//   quarantine/     damaged entries, kept aside for people, at most 16
//   lock            held by whoever writes
//
// The directory may vanish, fill up or be read-only at any time. Each folder
// is opened for each operation, belongs to this user, is closed to others
// (0700) and is never a link. Thread-safe, and safe between processes.
#ifndef GEMMD_JIT_DISK_STORE_H_
#define GEMMD_JIT_DISK_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "jit/file.h"
#include "jit/kernel_cache.h"

namespace gemmd::jit {

class DiskStore {
 public:
  explicit DiskStore(std::string directory)
      : directory_(std::move(directory)) {}

  // NOT_FOUND when there is no entry. DATA_LOSS when there was a damaged one,
  // which is in quarantine now. Others: the directory cannot be read.
  absl::StatusOr<CompiledKernel> Load(const std::string& key);

  // Publishes `kernel`: afterwards readers find all of it, whatever crashes.
  absl::Status Store(const CompiledKernel& kernel);

  // Puts the entry aside. For those that Load accepts and a device refuses.
  absl::Status Quarantine(const std::string& key);

  // NOT_FOUND when there is no entry.
  absl::Status Remove(const std::string& key);

  // Keys of all entries, sorted; empty when the directory cannot be read.
  std::vector<std::string> Keys() const;

  const std::string& directory() const { return directory_; }

 private:
  absl::StatusOr<UniqueFd> OpenFolder(const char* name, bool create) const;
  absl::StatusOr<UniqueFd> Lock() const;

  const std::string directory_;
  std::atomic<int64_t> next_temporary_{0};
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_DISK_STORE_H_
