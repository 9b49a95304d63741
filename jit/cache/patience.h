// How long a kernel waits for another process that has begun to make it, which
// may have been stopped with the locks of many: who waited in vain expects less
// of other processes for a while. Thread-safe.
#ifndef GEMMD_JIT_CACHE_PATIENCE_H_
#define GEMMD_JIT_CACHE_PATIENCE_H_

#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace gemmd::jit {

class Patience {
 public:
  struct Wait {
    absl::Time began = absl::InfinitePast();
    absl::Duration limit;  // From then on.
  };

  // `longest`: of a wait.
  explicit Patience(absl::Duration longest) : longest_(longest) {}

  // Whether to wait on. A wait begins when it is first asked for.
  bool Lasts(Wait& wait);

 private:
  const absl::Duration longest_;
  std::mutex mutex_;
  absl::Time short_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_PATIENCE_H_
