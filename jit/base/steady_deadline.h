// A deadline that stays where it is when somebody sets the clock: what waits
// for another process must not wait an hour longer, nor give up at once.
// Immutable.
#ifndef GEMMD_JIT_BASE_STEADY_DEADLINE_H_
#define GEMMD_JIT_BASE_STEADY_DEADLINE_H_

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gemmd::jit {

class SteadyDeadline {
 public:
  // `deadline` by the clock of now.
  explicit SteadyDeadline(absl::Time deadline)
      : end_(Clock::now() + absl::ToChronoNanoseconds(std::clamp(
                                deadline - absl::Now(), absl::ZeroDuration(),
                                absl::Hours(24 * 366)))) {}

  bool passed() const { return Clock::now() >= end_; }

 private:
  using Clock = std::chrono::steady_clock;

  const Clock::time_point end_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_STEADY_DEADLINE_H_
