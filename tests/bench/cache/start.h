// From the start of a daemon that has a compiler to its first answer.
#ifndef GEMMD_TESTS_BENCH_CACHE_START_H_
#define GEMMD_TESTS_BENCH_CACHE_START_H_

#include <string>

#include "absl/status/status.h"

namespace gemmd::jit {

// Starts daemons one after the other, on a cache that the first one filled, and
// prints the median. The kernel comes from disk.
absl::Status TimeStarts(const std::string& nvrtc);

}  // namespace gemmd::jit

#endif  // GEMMD_TESTS_BENCH_CACHE_START_H_
