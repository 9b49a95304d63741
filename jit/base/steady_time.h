// The time by a clock that nobody sets. What lasts, waits, ages or ends is told
// by it: an hour stays an hour when somebody sets the clock of the system.
// absl::Now() is for what is compared with a time that others have written
// down (of a file, of a certificate, of a token) or that people read; a test
// (tests/tidy) knows where. Thread-safe.
#ifndef GEMMD_JIT_BASE_STEADY_TIME_H_
#define GEMMD_JIT_BASE_STEADY_TIME_H_

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gemmd::jit {

// The system's clock as it would be if it had not been set since this was first
// asked for. In this process alone.
inline absl::Time SteadyNow() {
  using Clock = std::chrono::steady_clock;
  static const struct {
    absl::Time time = absl::Now();
    Clock::time_point at = Clock::now();
  } start;
  return start.time + absl::FromChrono(Clock::now() - start.at);
}

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_STEADY_TIME_H_
