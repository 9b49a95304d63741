#include "jit/cache/patience.h"

#include "jit/base/steady_time.h"

namespace gemmd::jit {
namespace {

constexpr absl::Duration kShortFor = absl::Minutes(1);
constexpr int kTimesShorter = 10;

}  // namespace

bool Patience::Lasts(Wait& wait) {
  const absl::Time now = SteadyNow();
  std::lock_guard lock(mutex_);
  if (wait.began == absl::InfinitePast()) {
    wait = {.began = now, .limit = longest_};
    if (now < short_until_) wait.limit /= kTimesShorter;
  }
  if (now - wait.began < wait.limit) return true;
  short_until_ = now + kShortFor;
  return false;
}

}  // namespace gemmd::jit
