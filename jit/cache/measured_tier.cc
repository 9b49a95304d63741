#include "jit/cache/measured_tier.h"

#include "jit/base/steady_time.h"

namespace gemmd::jit {

absl::StatusOr<CompiledKernel> MeasuredTier::Load(const std::string& key,
                                                  Look look) {
  return Measure([&] { return tier_->Load(key); }, look);
}

absl::StatusOr<CompiledKernel> MeasuredTier::LoadFor(const Instance& instance) {
  return Measure([&] { return tier_->LoadFor(instance); }, Look::kFirst);
}

absl::StatusOr<CompiledKernel> MeasuredTier::Measure(
    const std::function<absl::StatusOr<CompiledKernel>()>& load, Look look) {
  const absl::Time start = SteadyNow();
  absl::StatusOr<CompiledKernel> kernel = load();
  const absl::Duration took = SteadyNow() - start;
  std::lock_guard lock(mutex_);
  statistics_.load_us += absl::ToInt64Microseconds(took);
  if (kernel.ok()) {
    ++statistics_.hits;
    statistics_.bytes_loaded += static_cast<int64_t>(kernel->cubin.size());
  } else if (absl::IsNotFound(kernel.status())) {
    statistics_.misses += look == Look::kFirst;
  } else {
    ++statistics_.errors;
  }
  return kernel;
}

absl::Status MeasuredTier::Store(const CompiledKernel& kernel) {
  absl::Status status = tier_->Store(kernel);
  std::lock_guard lock(mutex_);
  if (status.ok()) {
    statistics_.bytes_stored += static_cast<int64_t>(kernel.cubin.size());
  } else {
    ++statistics_.errors;
  }
  return status;
}

TierStatistics MeasuredTier::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace gemmd::jit
