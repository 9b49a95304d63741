// What a device has done since the start, for metrics. Counting takes no lock.
// Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_DEVICE_COUNTS_H_
#define GEMMD_SERVICE_ENGINE_DEVICE_COUNTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "jit/problem/problem.h"
#include "service/engine/kernel_table.h"
#include "service/engine/product.h"
#include "service/metrics/histogram.h"

namespace gemmd::engine {

// 2 m n k, of all matrices of a batch; 0 when A and B are not read.
inline double Operations(const jit::Problem& problem) {
  if (!problem.reads_ab()) return 0;
  return 2.0 * static_cast<double>(problem.m) * static_cast<double>(problem.n) *
         static_cast<double>(problem.k) * static_cast<double>(problem.batch);
}

struct DeviceCounts {
  // A product has run, which took `total` from its admission on.
  void Ran(const jit::Problem& problem, KernelSource source,
           const Phases& phases, absl::Duration total) {
    Multiplied(problem, source);
    Took(phases, total);
  }
  // The same for some of several products of a request, and for the request.
  void Multiplied(const jit::Problem& problem, KernelSource source,
                  int64_t times = 1) {
    products[static_cast<size_t>(source)].fetch_add(times,
                                                    std::memory_order_relaxed);
    operations.fetch_add(static_cast<double>(times) * Operations(problem),
                         std::memory_order_relaxed);
  }
  void Took(const Phases& phases, absl::Duration total) {
    queue.Observe(phases.queue);
    plan.Observe(phases.plan);
    compile.Observe(phases.compile);
    upload.Observe(phases.upload);
    execute.Observe(phases.execute);
    download.Observe(phases.download);
    all.Observe(total);
  }

  std::array<std::atomic<int64_t>, kKernelSources> products = {};
  std::atomic<int64_t> failures = 0;  // See ServedDevice::ProductFailed.
  std::atomic<double> operations = 0;
  metrics::Histogram queue, plan, compile, upload, execute, download, all;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_DEVICE_COUNTS_H_
