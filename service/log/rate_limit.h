// How many lines of each event are written: a burst, then so many a second.
// Thread-safe.
#ifndef GEMMD_SERVICE_LOG_RATE_LIMIT_H_
#define GEMMD_SERVICE_LOG_RATE_LIMIT_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gemmd::log {

class RateLimit {
 public:
  static constexpr double kBurst = 50;
  static constexpr double kPerSecond = 10;

  // `now` is a time since any start, of a clock that nobody sets. Nothing when
  // the line is not to be written, else how many of its event have not been
  // since the last one that was. There are few events.
  std::optional<int64_t> Admit(absl::string_view event, absl::Duration now);

 private:
  struct Bucket {
    double tokens = kBurst;
    absl::Duration filled;  // When it had so many.
    int64_t suppressed = 0;
  };

  std::mutex mutex_;
  absl::flat_hash_map<std::string, Bucket> buckets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::log

#endif  // GEMMD_SERVICE_LOG_RATE_LIMIT_H_
