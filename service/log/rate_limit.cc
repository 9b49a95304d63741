#include "service/log/rate_limit.h"

#include <algorithm>
#include <utility>

namespace gemmd::log {

std::optional<int64_t> RateLimit::Admit(absl::string_view event,
                                        absl::Duration now) {
  std::lock_guard lock(mutex_);
  const auto [found, is_new] = buckets_.try_emplace(event);
  Bucket& bucket = found->second;
  if (!is_new) {
    const double seconds = absl::ToDoubleSeconds(now - bucket.filled);
    bucket.tokens = std::min(kBurst, bucket.tokens + seconds * kPerSecond);
  }
  bucket.filled = now;
  if (bucket.tokens < 1) {
    ++bucket.suppressed;
    return std::nullopt;
  }
  bucket.tokens -= 1;
  return std::exchange(bucket.suppressed, 0);
}

}  // namespace gemmd::log
