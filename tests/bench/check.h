// Is a kernel right? D and its surroundings are poisoned, one product runs,
// and the result is held against the library's and against sums in double
// precision on the host.
#ifndef GEMMD_TESTS_BENCH_CHECK_H_
#define GEMMD_TESTS_BENCH_CHECK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tests/bench/cublaslt_peer.h"
#include "tests/bench/device_code.h"
#include "tests/bench/operands.h"
#include "tests/bench/our_product.h"

namespace gemmd::bench {

struct CheckResult {
  bool compared = false;         // With the library.
  float largest_difference = 0;  // From the library's result.
  int64_t mismatches = 0;        // Elements too far from the library's.
  int sampled = 0;
  double largest_error = 0;        // Of the sample.
  double largest_error_share = 0;  // Of its bound; at most 1 when right.
  int64_t foreign_bytes = 0;       // Written before or after D.

  bool ok() const {
    return mismatches == 0 && largest_error_share <= 1 && foreign_bytes == 0;
  }
};

class Checker {
 public:
  // All outlive the checker; `library` may be null.
  Checker(const gpu::CudaDevice& device,
          const std::shared_ptr<gpu::Stream>& stream, const DeviceCode& code)
      : device_(device), stream_(stream), code_(code) {}

  // Computes the library's result once for all kernels of the problem;
  // without it only the sample is compared. D of copy 0 keeps it.
  absl::Status SetReference(const LtProduct& library,
                            const lt::HeuristicResult& heuristic,
                            const Operands& operands, CUdeviceptr workspace);

  absl::StatusOr<CheckResult> Check(const jit::Problem& problem,
                                    const OurProduct& ours) const;

 private:
  absl::Status CompareWithReference(const jit::Problem& problem, CUdeviceptr d,
                                    CheckResult& result) const;
  absl::Status CountForeign(const jit::Problem& problem, CUdeviceptr buffer,
                            CheckResult& result) const;
  absl::Status Sample(const jit::Problem& problem, CUdeviceptr d,
                      CheckResult& result) const;

  const gpu::CudaDevice& device_;
  const std::shared_ptr<gpu::Stream>& stream_;
  const DeviceCode& code_;
  CUdeviceptr reference_ = 0;  // Without padding; 0 when there is none.
};

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_CHECK_H_
