// Device memory in stream order, from one pool per device that keeps what is
// freed: an allocation costs microseconds once the pool has grown.
#ifndef GEMMD_SERVICE_GPU_DEVICE_MEMORY_H_
#define GEMMD_SERVICE_GPU_DEVICE_MEMORY_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "service/gpu/stream.h"

namespace gemmd::gpu {

// Memory that exists from one point of its stream to another. Freed by the
// destructor in stream order: behind all work enqueued on the stream so far.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(std::shared_ptr<Stream> stream, CUdeviceptr pointer,
               int64_t bytes)
      : stream_(std::move(stream)), pointer_(pointer), bytes_(bytes) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : stream_(std::move(other.stream_)),
        pointer_(std::exchange(other.pointer_, 0)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer() { Reset(); }

  CUdeviceptr get() const { return pointer_; }
  int64_t bytes() const { return bytes_; }
  const Stream& stream() const { return *stream_; }

  void Reset();

 private:
  std::shared_ptr<Stream> stream_;
  CUdeviceptr pointer_ = 0;
  int64_t bytes_ = 0;
};

// Thread-safe. Outlives its buffers.
class MemoryPool {
 public:
  static absl::StatusOr<std::unique_ptr<MemoryPool>> Create(
      const Context* context);

  // At least 256-byte aligned; contents unspecified. When the device is full,
  // waits for the stream, gives idle memory of the pool back and tries once
  // more. RESOURCE_EXHAUSTED names the bytes asked for.
  absl::StatusOr<DeviceBuffer> Allocate(const std::shared_ptr<Stream>& stream,
                                        int64_t bytes) const;

  // `peer` copies from here over the link between the two, where there is one,
  // and not through the host.
  absl::Status Admit(CUdevice peer) const;

  // What the device has free plus what the pool holds idle.
  absl::StatusOr<int64_t> FreeBytes() const;

 private:
  using Handle = UniqueHandle<CUmemoryPool, &DriverTable::cuMemPoolDestroy>;

  MemoryPool(const Context* context, Handle pool)
      : context_(context), pool_(std::move(pool)) {}

  const Context* const context_;
  const Handle pool_;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_DEVICE_MEMORY_H_
