// Finds entries on disk by source, whichever compiler made them: how a machine
// without NVRTC, which cannot know the key, still runs cached kernels.
// Thread-safe.
#ifndef GEMMD_JIT_CACHE_SOURCE_INDEX_H_
#define GEMMD_JIT_CACHE_SOURCE_INDEX_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "jit/cache/disk_store.h"
#include "jit/source/instance.h"

namespace gemmd::jit {

class SourceIndex {
 public:
  explicit SourceIndex(std::vector<std::shared_ptr<DiskStore>> stores)
      : stores_(std::move(stores)) {}

  // Key of the entry of `instance` made by the newest compiler; empty when
  // there is none. Lists the directories; reads each entry once.
  std::string Find(const Instance& instance);
  // The same as of the last Find, whatever happened to the directories since:
  // touches no disk.
  std::string FindKnown(const Instance& instance) const;

 private:
  struct Known {
    std::string source_digest;
    std::vector<std::string> options;
    std::string compiler;
  };

  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Newest(const Instance& instance) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<std::shared_ptr<DiskStore>> stores_;
  mutable std::mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);  // By key.
  // Keys of known_ by source digest.
  absl::flat_hash_map<std::string, std::vector<std::string>> by_source_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_SOURCE_INDEX_H_
