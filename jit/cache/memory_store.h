// Compiled kernels in memory, bounded by bytes, least recently used first out.
// Thread-safe.
#ifndef GEMMD_JIT_CACHE_MEMORY_STORE_H_
#define GEMMD_JIT_CACHE_MEMORY_STORE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "jit/compile/compiled_kernel.h"

namespace gemmd::jit {

using KernelPointer = std::shared_ptr<const CompiledKernel>;

class MemoryStore {
 public:
  explicit MemoryStore(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Null when there is none.
  KernelPointer Find(const std::string& key);
  // A kernel larger than the limit is not kept.
  void Insert(KernelPointer kernel);
  // False when there was none.
  bool Remove(const std::string& key);
  std::vector<KernelPointer> List() const;

 private:
  using Order = std::list<KernelPointer>;

  const int64_t limit_bytes_;
  mutable std::mutex mutex_;
  Order order_ ABSL_GUARDED_BY(mutex_);  // Most recently used first.
  absl::flat_hash_map<std::string, Order::iterator> by_key_
      ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_MEMORY_STORE_H_
