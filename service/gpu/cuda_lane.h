// A lane of a GPU: one stream, a staging ring, and the workspace and tensor
// maps of its kernels. Used by one thread at a time.
#ifndef GEMMD_SERVICE_GPU_CUDA_LANE_H_
#define GEMMD_SERVICE_GPU_CUDA_LANE_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/device/device.h"
#include "service/gpu/band_pipeline.h"
#include "service/gpu/cuda_matrix.h"
#include "service/gpu/device_memory.h"
#include "service/gpu/launch.h"
#include "service/gpu/launch_order.h"
#include "service/gpu/module.h"
#include "service/gpu/pinned_memory.h"
#include "service/gpu/staging_ring.h"
#include "service/gpu/tensor_map.h"
#include "service/gpu/workspace.h"

namespace gemmd::gpu {

class CudaKernel final : public device::Kernel {
 public:
  // `functions` are kernels of `module`.
  CudaKernel(Module module, KernelFunctions functions)
      : module_(std::move(module)), functions_(functions) {}
  const KernelFunctions& functions() const { return functions_; }

 private:
  const Module module_;
  const KernelFunctions functions_;
};

class CudaLane final : public device::Lane {
 public:
  // `context`, `memory` and `order` outlive the lane.
  static absl::StatusOr<std::unique_ptr<CudaLane>> Create(
      const Context* context, const MemoryPool* memory, LaunchOrder* order,
      std::shared_ptr<PinnedPool> pinned, StagingRing::Options staging);
  ~CudaLane() override;

  absl::StatusOr<std::unique_ptr<device::Matrix>> Allocate(
      const jit::MatrixLayout& layout) override;
  absl::Status ClearLines(device::Matrix& matrix,
                          device::LineRange lines) override;
  std::unique_ptr<device::Matrix> Borrow(const device::RegionPlace& place,
                                         const jit::MatrixLayout& layout,
                                         int64_t pitch_bytes) override;
  absl::Status CopyFromPeer(const device::Matrix& from,
                            device::Matrix& to) override;
  absl::Status Upload(const device::HostMatrix& from, device::LineRange lines,
                      device::Matrix& to) override;
  absl::StatusOr<std::unique_ptr<device::HostBuffer>> Download(
      const device::Matrix& from, device::LineRange lines,
      int64_t pitch_bytes) override;
  absl::Status DownloadTo(const device::RegionPlace& to,
                          const device::Matrix& from, device::LineRange lines,
                          int64_t pitch_bytes) override;
  absl::Status Prepare(jit::Form form, const device::Kernel& kernel,
                       const device::Matrix& from, device::Matrix& to) override;
  absl::Status Multiply(const jit::Problem& problem, const jit::Plan& plan,
                        const device::Kernel& kernel,
                        const device::Operands& operands) override;
  absl::Status MultiplyGroup(absl::Span<const device::GroupMember> members,
                             const device::Kernel& kernel) override;
  absl::StatusOr<device::BandTimes> MultiplyInBands(
      absl::Span<const device::Band> bands,
      const device::Kernel& kernel) override;
  absl::Status Synchronize() override;

 private:
  CudaLane(std::shared_ptr<Stream> stream, Event end, const MemoryPool* memory,
           LaunchOrder* order, std::shared_ptr<PinnedPool> pinned,
           StagingRing ring);

  const DriverTable& driver() const { return stream_->driver(); }
  // Where `matrix` lies; 0 when null. Notes that this lane uses it.
  CUdeviceptr Use(const device::Matrix* matrix) const;
  // As Upload and DownloadTo, on a stream that is the lane's or waits for it.
  // The latter waits for nothing, unless memory of the host is not pinned.
  absl::Status EnqueueUpload(const device::HostMatrix& from,
                             device::LineRange lines, device::Matrix& to,
                             const Stream& stream);
  absl::Status EnqueueDownload(const device::RegionPlace& to,
                               const device::Matrix& from,
                               device::LineRange lines, int64_t pitch_bytes,
                               const Stream& stream);
  absl::Status EnqueueBand(const device::Band& band,
                           const device::Kernel& kernel,
                           BandPipeline& pipeline);
  // Lines of a client's on this device, `pitch_bytes` apart, to `to`.
  absl::Status CopyFromRegion(const device::HostMatrix& from,
                              const jit::MatrixLayout& layout, CUdeviceptr to,
                              const Stream& stream);
  // Enqueues a kernel that is predicted to take so long.
  absl::Status Enqueue(double cycles, absl::FunctionRef<absl::Status()> launch);
  absl::StatusOr<PreparedLaunch> Prepare(const jit::Problem& problem,
                                         const jit::Plan& plan,
                                         const device::Kernel& kernel,
                                         const device::Operands& operands);

  const std::shared_ptr<Stream> stream_;
  const std::shared_ptr<Event> end_;  // Of the last launch in order.
  const MemoryPool* const memory_;
  LaunchOrder* const order_;
  const std::shared_ptr<PinnedPool> pinned_;
  StagingRing ring_;
  std::unique_ptr<BandStreams> band_streams_;  // Null before the first bands.
  // That work under way may read or write.
  std::vector<std::shared_ptr<const device::Region>> regions_;
  Workspace workspace_;
  TensorMaps maps_;
  DeviceBuffer products_;  // Arguments of a grouped launch.
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_CUDA_LANE_H_
