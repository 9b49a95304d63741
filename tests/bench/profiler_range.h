// What a profiler looks at that waits to be told: ncu --profile-from-start off.
#ifndef GEMMD_TESTS_BENCH_PROFILER_RANGE_H_
#define GEMMD_TESTS_BENCH_PROFILER_RANGE_H_

#include <functional>

#include "absl/status/status.h"
#include "service/gpu/stream.h"

namespace gemmd::bench {

// Runs `work`, which enqueues on `stream`, and waits for it; a profiler sees
// that and nothing else.
absl::Status InProfilerRange(const gpu::Stream& stream,
                             const std::function<absl::Status()>& work);

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_PROFILER_RANGE_H_
