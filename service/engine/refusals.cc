#include "service/engine/refusals.h"

#include <cstddef>

#include "jit/base/steady_time.h"
#include "jit/source/instance.h"

namespace gemmd::engine {
namespace {

constexpr absl::Duration kLifetime = absl::Minutes(10);
// A refusal that is forgotten costs another try, no more.
constexpr size_t kMost = 1024;

}  // namespace

void Refusals::Add(const std::string& kernel, const absl::Status& why) {
  std::lock_guard lock(mutex_);
  if (by_kernel_.size() >= kMost) by_kernel_.clear();
  by_kernel_[kernel] = {why, jit::SteadyNow() + kLifetime};
}

absl::Status Refusals::Of(const jit::Family& family,
                          const jit::Config& config) const {
  std::lock_guard lock(mutex_);
  if (by_kernel_.empty()) return absl::OkStatus();
  const auto found = by_kernel_.find(jit::KernelName(family, config));
  const bool refused =
      found != by_kernel_.end() && jit::SteadyNow() < found->second.until;
  return refused ? found->second.why : absl::OkStatus();
}

}  // namespace gemmd::engine
