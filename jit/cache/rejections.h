// Instances that the compiler rejected: remembered for a while, so that a
// request for one is refused at once instead of compiling in vain again.
// Bounded. Thread-safe.
#ifndef GEMMD_JIT_CACHE_REJECTIONS_H_
#define GEMMD_JIT_CACHE_REJECTIONS_H_

#include <cstddef>
#include <list>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"

namespace gemmd::jit {

class Rejections {
 public:
  Rejections(absl::Duration lifetime, size_t limit)
      : lifetime_(lifetime), limit_(limit) {}

  // Remembers `status` when it is one that would come again (INTERNAL: see
  // BuildKernel). The oldest makes room. A key holds the source and the
  // compiler, so that changing either clears what is remembered of it.
  void Add(const std::string& key, const absl::Status& status);
  // The Status with which `key` was rejected; OK when nothing is known.
  absl::Status Find(const std::string& key);
  void Remove(const std::string& key);

 private:
  struct Rejection {
    std::string key;
    absl::Status status;
    absl::Time until;
  };
  using Order = std::list<Rejection>;

  const absl::Duration lifetime_;
  const size_t limit_;
  std::mutex mutex_;
  Order order_ ABSL_GUARDED_BY(mutex_);  // Oldest first.
  absl::flat_hash_map<std::string, Order::iterator> by_key_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_REJECTIONS_H_
