// A cache of 20,000 entries and 4 GiB: how long it takes to start on it, to
// store into it on the path of a request, and to list its first page.
#ifndef GEMMD_TESTS_BENCH_CACHE_LARGE_H_
#define GEMMD_TESTS_BENCH_CACHE_LARGE_H_

#include <string>

#include "absl/status/status.h"

namespace gemmd::jit {

// Fills a temporary folder in `parent`, which is removed at the end, and prints
// the figures. Nothing of the files is in the page cache at the start.
absl::Status TimeLargeCache(const std::string& parent);

}  // namespace gemmd::jit

#endif  // GEMMD_TESTS_BENCH_CACHE_LARGE_H_
