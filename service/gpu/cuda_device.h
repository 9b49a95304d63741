// A GPU of compute capability 9.0 behind the device interface.
#ifndef GEMMD_SERVICE_GPU_CUDA_DEVICE_H_
#define GEMMD_SERVICE_GPU_CUDA_DEVICE_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "service/device/device.h"
#include "service/gpu/context.h"
#include "service/gpu/cuda_timing.h"
#include "service/gpu/device_memory.h"
#include "service/gpu/launch_order.h"
#include "service/gpu/pinned_memory.h"
#include "service/gpu/staging_ring.h"

namespace gemmd::gpu {

struct Options {
  std::string driver_library = "libcuda.so.1";
  StagingRing::Options staging;  // Of each lane.
  PinnedPool::Limits pinned;     // Of each device.
  bool imports_ipc = true;       // Where the device does.
  // Told of each GPU of 9.0 that cannot be opened, and why; null: nobody is.
  std::function<void(int ordinal, const absl::Status& why)> unusable;
};

// Every GPU of compute capability 9.0 on this machine that can be opened, in
// the driver's order. Errors: those of LoadDriver (NOT_FOUND without a driver);
// FAILED_PRECONDITION when there are GPUs, but none of 9.0; that of the last
// one when none can be opened.
absl::StatusOr<std::vector<std::unique_ptr<device::Device>>> OpenCudaDevices(
    const Options& options);
absl::StatusOr<std::vector<std::unique_ptr<device::Device>>> OpenCudaDevices(
    std::shared_ptr<const DriverTable> driver, const Options& options);

class CudaDevice final : public device::Device {
 public:
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(
      std::shared_ptr<const DriverTable> driver, int ordinal,
      const Options& options);

  const device::Description& description() const override {
    return description_;
  }
  // 0 when the device is lost.
  int64_t FreeBytes() const override;
  device::PinnedMemory pinned_memory() const override { return pinned_->use(); }
  absl::StatusOr<std::unique_ptr<device::Pin>> PinMemory(
      absl::Span<char> memory) override {
    return gpu::PinMemory(context_.get(), memory);
  }
  absl::StatusOr<std::unique_ptr<device::Imported>> ImportMemory(
      const device::ImportHandle& handle) override;
  absl::StatusOr<std::unique_ptr<device::Lane>> CreateLane() override;
  absl::StatusOr<std::unique_ptr<device::Kernel>> Load(
      const jit::CompiledKernel& compiled, const jit::Plan& plan) override;
  // Writes, copies back and compares a few bytes.
  absl::Status Probe() override ABSL_LOCKS_EXCLUDED(probe_mutex_);

  device::TimingMemory TimingMemoryOf(
      const jit::Problem& problem,
      absl::Span<const device::Contender> contenders) const override;
  absl::StatusOr<std::unique_ptr<device::Timing>> CreateTiming(
      const jit::Problem& problem,
      absl::Span<const device::Contender> contenders,
      int64_t memory_bytes) override;

  // For the benchmark, which launches below the device interface.
  const Context& context() const { return *context_; }
  const MemoryPool& memory() const { return *memory_; }

 private:
  CudaDevice(std::unique_ptr<Context> context,
             std::unique_ptr<MemoryPool> memory, const Options& options,
             device::Description description, int64_t cache_bytes);

  CudaTiming::Device TimingDevice() const {
    return {*context_, *memory_, *pinned_, cache_bytes_};
  }

  // Held from the start, so that a probe works when memory is used up.
  struct ProbeMemory {
    std::shared_ptr<Stream> stream;
    DeviceBuffer device;
    PinnedBuffer host;
    unsigned char pattern = 0;  // Another each time: memory remembers.
  };
  absl::Status ReserveProbeMemory() ABSL_LOCKS_EXCLUDED(probe_mutex_);

  // Destroyed in reverse: everything below uses what is above it.
  const std::unique_ptr<Context> context_;
  const std::unique_ptr<MemoryPool> memory_;
  const std::shared_ptr<PinnedPool> pinned_;
  const StagingRing::Options staging_;
  const device::Description description_;
  const int64_t cache_bytes_;  // Of the L2 cache.
  LaunchOrder launch_order_;

  std::mutex probe_mutex_;
  ProbeMemory probe_ ABSL_GUARDED_BY(probe_mutex_);
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_CUDA_DEVICE_H_
