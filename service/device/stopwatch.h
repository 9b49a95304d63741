// Time that the phases of a request take. Thread-compatible.
#ifndef GEMMD_SERVICE_DEVICE_STOPWATCH_H_
#define GEMMD_SERVICE_DEVICE_STOPWATCH_H_

#include <utility>

#include "absl/time/time.h"
#include "jit/base/steady_time.h"

namespace gemmd::device {

class Stopwatch {
 public:
  // Time since the last call, or since construction.
  absl::Duration Lap() {
    const absl::Time now = jit::SteadyNow();
    return now - std::exchange(last_, now);
  }

 private:
  absl::Time last_ = jit::SteadyNow();
};

}  // namespace gemmd::device

#endif  // GEMMD_SERVICE_DEVICE_STOPWATCH_H_
