// A matrix in the memory of a GPU.
//
// It is allocated and freed in the order of one stream, its home, but may be
// used on others too. Those are noted, and freeing waits for what they have
// enqueued by then. Ordering uses among each other is the caller's duty.
//
// One that is borrowed has the memory of somebody else, whom its lane keeps
// until it is synchronized.
#ifndef GEMMD_SERVICE_GPU_CUDA_MATRIX_H_
#define GEMMD_SERVICE_GPU_CUDA_MATRIX_H_

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "service/device/device.h"
#include "service/gpu/device_memory.h"

namespace gemmd::gpu {

class CudaMatrix final : public device::Matrix {
 public:
  CudaMatrix(jit::MatrixLayout layout, DeviceBuffer buffer)
      : Matrix(layout),
        buffer_(std::move(buffer)),
        pointer_(buffer_.get()),
        borrowed_(false) {}
  // Borrowed.
  CudaMatrix(jit::MatrixLayout layout, CUdeviceptr pointer)
      : Matrix(layout), pointer_(pointer), borrowed_(true) {}
  ~CudaMatrix() override;

  CUdeviceptr pointer() const { return pointer_; }
  // Of the device that it is on. Not for one that is borrowed.
  const Context& context() const { return buffer_.stream().context(); }

  // Work on `stream` reads or writes this matrix. Thread-safe.
  void UsedOn(const std::shared_ptr<Stream>& stream) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const DeviceBuffer buffer_;  // Empty where borrowed.
  const CUdeviceptr pointer_;
  const bool borrowed_;

  mutable std::mutex mutex_;
  // Streams other than home, each once.
  mutable std::vector<std::shared_ptr<Stream>> guests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_CUDA_MATRIX_H_
