// Cubins that a device refused to load: no tier may bring them again, while
// another cubin under the same key is welcome. Bounded. Thread-safe.
#ifndef GEMMD_JIT_CACHE_REFUSED_CUBINS_H_
#define GEMMD_JIT_CACHE_REFUSED_CUBINS_H_

#include <deque>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "jit/base/sha256.h"
#include "jit/compile/compiled_kernel.h"

namespace gemmd::jit {

class RefusedCubins {
 public:
  void Add(const CompiledKernel& kernel) {
    std::string digest = Sha256Of(kernel.cubin);
    std::lock_guard lock(mutex_);
    if (!digests_.insert(digest).second) return;
    order_.push_back(std::move(digest));
    if (order_.size() <= kMost) return;
    digests_.erase(order_.front());
    order_.pop_front();
  }

  bool Contains(const CompiledKernel& kernel) const {
    std::lock_guard lock(mutex_);
    // Almost always: nothing was refused, and nothing is digested.
    return !digests_.empty() && digests_.contains(Sha256Of(kernel.cubin));
  }

 private:
  static constexpr size_t kMost = 1024;

  mutable std::mutex mutex_;
  absl::flat_hash_set<std::string> digests_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> order_ ABSL_GUARDED_BY(mutex_);  // Oldest first.
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_REFUSED_CUBINS_H_
