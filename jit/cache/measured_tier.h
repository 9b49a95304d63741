// A tier and what is known of its use. Thread-safe.
#ifndef GEMMD_JIT_CACHE_MEASURED_TIER_H_
#define GEMMD_JIT_CACHE_MEASURED_TIER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "jit/cache/kernel_cache.h"
#include "jit/cache/tier.h"

namespace gemmd::jit {

// Whether a look is the first of its request: when it is another, a miss was
// counted before.
enum class Look { kFirst, kAgain };

class MeasuredTier {
 public:
  MeasuredTier(std::string name, std::shared_ptr<Tier> tier)
      : tier_(std::move(tier)) {
    statistics_.name = std::move(name);
  }

  absl::StatusOr<CompiledKernel> Load(const std::string& key,
                                      Look look = Look::kFirst);
  absl::StatusOr<CompiledKernel> LoadFor(const Instance& instance);
  absl::Status Store(const CompiledKernel& kernel);
  absl::Status Remove(const std::string& key) { return tier_->Remove(key); }

  std::string name() const { return statistics().name; }
  TierStatistics statistics() const;

 private:
  absl::StatusOr<CompiledKernel> Measure(
      const std::function<absl::StatusOr<CompiledKernel>()>& load, Look look);

  const std::shared_ptr<Tier> tier_;
  mutable std::mutex mutex_;
  TierStatistics statistics_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_MEASURED_TIER_H_
