// cublasGemmGroupedBatchedEx as the call to compare with: opened at run time,
// never linked. Names and values are those of the cuBLAS 12 and 13
// documentation.
#ifndef GEMMD_TESTS_BENCH_GROUPED_CUBLAS_PEER_H_
#define GEMMD_TESTS_BENCH_GROUPED_CUBLAS_PEER_H_

#include <cuda.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "jit/problem/problem.h"
#include "service/gpu/cuda_device.h"
#include "service/gpu/device_memory.h"

namespace gemmd::bench {

// Products of 16-bit floats without batches.
class CublasGroup {
 public:
  struct Memory {
    CUdeviceptr a = 0, b = 0, d = 0;
  };

  // One product each, lines without padding. The device's context is current.
  static absl::StatusOr<std::unique_ptr<CublasGroup>> Create(
      const gpu::CudaDevice& device, const std::shared_ptr<gpu::Stream>& stream,
      absl::Span<const jit::Problem> problems, absl::Span<const Memory> memory);
  ~CublasGroup();

  absl::Status Enqueue() const;

 private:
  struct Api;

  CublasGroup() = default;
  absl::Status Open(const gpu::Stream& stream);

  std::unique_ptr<const Api> api_;
  void* handle_ = nullptr;
  int type_ = 0;
  // One for each product, in the library's column-major terms.
  std::vector<int> trans_a_, trans_b_, m_, n_, k_, lda_, ldb_, ldd_, one_;
  std::vector<float> alpha_, beta_;
  gpu::DeviceBuffer pointers_;  // Of all A, then B, then D.
};

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_GROUPED_CUBLAS_PEER_H_
