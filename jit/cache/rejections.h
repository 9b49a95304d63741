// Compiles that failed, remembered for a while, so that a request for one is
// refused at once instead of compiling in vain again: for long when the
// compiler rejected the source, which it would do again; when it crashed, hung
// or lacked memory, for a pause that doubles with each failure in a row.
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
  // `first_pause`: after the first crash of a compile; no pause is longer than
  // `lifetime`.
  Rejections(absl::Duration lifetime, absl::Duration first_pause, size_t limit)
      : lifetime_(lifetime), first_pause_(first_pause), limit_(limit) {}

  // Remembers that the compile of `key` failed with `status`: INTERNAL is a
  // rejection (see BuildKernel). The oldest makes room. A key holds the source
  // and the compiler, so that changing either clears what is remembered of it.
  void Add(const std::string& key, const absl::Status& status);
  // The Status with which `key` failed while it is not to be tried again; OK
  // otherwise.
  absl::Status Find(const std::string& key);
  // After a compile that succeeded, or when someone wants another try.
  void Remove(const std::string& key);

 private:
  struct Rejection {
    std::string key;
    absl::Status status;
    absl::Time until;
    absl::Duration pause;  // Between the failure and `until`.
  };
  using Order = std::list<Rejection>;

  const absl::Duration lifetime_;
  const absl::Duration first_pause_;
  const size_t limit_;
  std::mutex mutex_;
  Order order_ ABSL_GUARDED_BY(mutex_);  // Oldest first.
  absl::flat_hash_map<std::string, Order::iterator> by_key_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_REJECTIONS_H_
