#include "service/gpu/device_memory.h"

#include "absl/strings/str_cat.h"
#include "service/gpu/status.h"

namespace gemmd::gpu {

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this != &other) {
    Reset();
    stream_ = std::move(other.stream_);
    pointer_ = std::exchange(other.pointer_, 0);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void DeviceBuffer::Reset() {
  if (pointer_ == 0) return;
  // Errors are dropped: they mean a lost device, whose memory is gone anyway.
  if (stream_->context().MakeCurrent().ok()) {
    stream_->driver().cuMemFreeAsync(pointer_, stream_->get());
  }
  pointer_ = 0;
  bytes_ = 0;
}

absl::StatusOr<std::unique_ptr<MemoryPool>> MemoryPool::Create(
    const Context* context) {
  RETURN_IF_ERROR(context->MakeCurrent());
  const DriverTable& driver = context->driver();
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = context->device();
  CUmemoryPool pool;
  RETURN_IF_CUDA_ERROR(driver, cuMemPoolCreate(&pool, &properties));
  Handle handle(context, pool);
  // Memory returns to the system only when an allocation fails.
  cuuint64_t threshold = UINT64_MAX;
  RETURN_IF_CUDA_ERROR(
      driver, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                    &threshold));
  return std::unique_ptr<MemoryPool>(
      new MemoryPool(context, std::move(handle)));
}

absl::StatusOr<DeviceBuffer> MemoryPool::Allocate(
    const std::shared_ptr<Stream>& stream, int64_t bytes) const {
  RETURN_IF_ERROR(context_->MakeCurrent());
  const DriverTable& driver = context_->driver();
  CUdeviceptr pointer = 0;
  CUresult result = driver.cuMemAllocFromPoolAsync(
      &pointer, static_cast<size_t>(bytes), pool_.get(), stream->get());
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    RETURN_IF_ERROR(stream->Synchronize());
    RETURN_IF_CUDA_ERROR(driver, cuMemPoolTrimTo(pool_.get(), 0));
    result = driver.cuMemAllocFromPoolAsync(
        &pointer, static_cast<size_t>(bytes), pool_.get(), stream->get());
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "Device memory is used up: ", bytes, " bytes were asked for"));
  }
  RETURN_IF_ERROR(ToStatus(driver, result, "cuMemAllocFromPoolAsync"));
  return DeviceBuffer(stream, pointer, bytes);
}

absl::Status MemoryPool::Admit(CUdevice peer) const {
  const DriverTable& driver = context_->driver();
  int able = 0;
  RETURN_IF_CUDA_ERROR(driver,
                       cuDeviceCanAccessPeer(&able, peer, context_->device()));
  if (able == 0) return absl::OkStatus();
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = peer;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  RETURN_IF_CUDA_ERROR(driver, cuMemPoolSetAccess(pool_.get(), &access, 1));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MemoryPool::FreeBytes() const {
  RETURN_IF_ERROR(context_->MakeCurrent());
  const DriverTable& driver = context_->driver();
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  RETURN_IF_CUDA_ERROR(driver, cuMemGetInfo(&free_bytes, &total_bytes));
  cuuint64_t reserved = 0;
  cuuint64_t used = 0;
  RETURN_IF_CUDA_ERROR(
      driver,
      cuMemPoolGetAttribute(pool_.get(), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                            &reserved));
  RETURN_IF_CUDA_ERROR(
      driver, cuMemPoolGetAttribute(pool_.get(),
                                    CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  // The two are read apart, so an allocation between them may show.
  const cuuint64_t idle = reserved > used ? reserved - used : 0;
  return static_cast<int64_t>(free_bytes + idle);
}

}  // namespace gemmd::gpu
