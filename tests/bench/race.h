// One problem, timed: our kernels against cuBLASLt's.
#ifndef GEMMD_TESTS_BENCH_RACE_H_
#define GEMMD_TESTS_BENCH_RACE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/plan/cost_correction.h"
#include "tests/bench/check.h"
#include "tests/bench/cublaslt_peer.h"
#include "tests/bench/device_code.h"
#include "tests/bench/operands.h"
#include "tests/bench/our_product.h"
#include "tests/bench/timer.h"

namespace gemmd::bench {

// Of one product: microseconds, and joules of the whole board; 0 where not
// measured.
struct Times {
  double burst_us = 0;
  double sustained_us = 0;
  double sustained_joules = 0;
};

struct OurResult {
  std::string kernel;
  double predicted_cycles = 0;
  double predicted_us = 0;
  jit::CostTerms terms = {};
  int grid = 0;
  int splits = 1;
  int raster_group = 1;
  Times resident;  // Operands made ready beforehand.
  // Padding of A and B and other forms of them counted; only where needed.
  Times packed;
  std::optional<CheckResult> check;
};

struct LibraryResult {
  int heuristics = 0;  // Returned by the library.
  int best = 0;        // Which of them was fastest, from 0.
  Times best_times;
  Times first_times;
};

struct RaceResult {
  jit::Problem problem;
  bool odd = false;             // A or B needs padding or another form.
  std::vector<OurResult> ours;  // In the order of the choices.
  int best = 0;                 // The fastest of them.
  std::optional<LibraryResult> library;
};

// What all races share. All outlive the race.
struct RaceTrack {
  const gpu::CudaDevice& device;
  const std::shared_ptr<gpu::Stream>& stream;
  const DeviceCode& code;
  jit::KernelCache& cache;
  const Timer& timer;
  const CublasLt* library = nullptr;  // Null: without.
  CUdeviceptr library_workspace = 0;
  size_t library_workspace_bytes = 0;
  int64_t l2_bytes = 0;
  int heuristics = 8;
  std::optional<bool> brief;  // As all our plans are.
  bool check = false;
  bool burst = true;
  bool sustained = false;
  bool profile = false;  // Once each, in a range that profilers see.
};

absl::StatusOr<RaceResult> Race(const RaceTrack& track,
                                const jit::Problem& problem,
                                const std::vector<Choice>& choices);

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_RACE_H_
