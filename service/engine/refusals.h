// Kernels that compiler or device refuse, passed over for as long as the cache
// remembers what the compiler rejected. Bounded. Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_REFUSALS_H_
#define GEMMD_SERVICE_ENGINE_REFUSALS_H_

#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "jit/plan/plan.h"

namespace gemmd::engine {

class Refusals {
 public:
  // The kernel of that name was refused, with the error `why`.
  void Add(const std::string& kernel, const absl::Status& why);
  // The error with which a kernel was refused; OK for one that may be tried.
  absl::Status Of(const jit::Family& family, const jit::Config& config) const;
  absl::Status Of(const jit::Plan& plan) const {
    return Of(plan.family, plan.config);
  }

 private:
  struct Refusal {
    absl::Status why;
    absl::Time until;
  };

  mutable std::mutex mutex_;
  absl::flat_hash_map<std::string, Refusal> by_kernel_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_REFUSALS_H_
