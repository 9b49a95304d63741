// Which kernels were used since somebody last asked: what is served from
// memory or a device leaves no other trace on disk. Bounded by the number of
// kernels in use. Thread-safe.
#ifndef GEMMD_JIT_CACHE_USE_RECORD_H_
#define GEMMD_JIT_CACHE_USE_RECORD_H_

#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"

namespace gemmd::jit {

class UseRecord {
 public:
  void Note(const std::string& key) {
    std::lock_guard lock(mutex_);
    used_.insert(key);
  }

  // The keys, which are forgotten.
  std::vector<std::string> Take() {
    std::lock_guard lock(mutex_);
    std::vector<std::string> keys(used_.begin(), used_.end());
    used_.clear();
    return keys;
  }

 private:
  std::mutex mutex_;
  absl::flat_hash_set<std::string> used_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_USE_RECORD_H_
