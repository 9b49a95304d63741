// A group of products, timed: one launch of ours, our launches one by one, and
// cuBLAS's call, in turns in one run.
#ifndef GEMMD_TESTS_BENCH_GROUPED_RACE_H_
#define GEMMD_TESTS_BENCH_GROUPED_RACE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "jit/cache/kernel_cache.h"
#include "jit/source/template_library.h"
#include "service/gpu/cuda_device.h"
#include "tests/bench/grouped/group_file.h"
#include "tests/bench/timer.h"

namespace gemmd::bench {

// What all races share. All outlive the race.
struct GroupTrack {
  const gpu::CudaDevice& device;
  const std::shared_ptr<gpu::Stream>& stream;
  const jit::TemplateLibrary& templates;
  jit::KernelCache& cache;
  const Timer& timer;
  int candidates = 4;  // Plans that are tried.
};

// Microseconds of the whole group; 0 where not measured.
struct GroupResult {
  std::string kernel;       // Of the plan that a daemon would use,
  double us = 0;            // and its time.
  std::string best_kernel;  // The fastest of those that were tried.
  double best_us = 0;
  double alone_us = 0;  // One launch for each.
  double cublas_us = 0;
  double tflops = 0;
  // Lines that differ from those of single launches of the same kernels but for
  // their grouping, which have bits that are known to be right.
  int64_t wrong_lines = 0;
};

absl::StatusOr<GroupResult> RaceGroup(const GroupTrack& track,
                                      const NamedGroup& group);

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_GROUPED_RACE_H_
