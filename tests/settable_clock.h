// A time of day that a test sets: for all of a program, one file of which
// includes this.
#ifndef GEMMD_TESTS_SETTABLE_CLOCK_H_
#define GEMMD_TESTS_SETTABLE_CLOCK_H_

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace gemmd {

// Added to the time of day.
inline std::atomic<int64_t> clock_step_s = 0;

}  // namespace gemmd

// What the executable defines comes before the C library's.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec += gemmd::clock_step_s;
  return result;
}

#endif  // GEMMD_TESTS_SETTABLE_CLOCK_H_
