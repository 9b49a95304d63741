#include "tests/integration/threaded_driver/memory.h"

#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "tests/integration/threaded_driver/faults.h"
#include "tests/integration/threaded_driver/streams.h"

namespace gemmd::threaded_driver {
namespace {

constexpr size_t kAlignment = 512;

void* Aligned(size_t bytes) {
  return std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
}

// As the daemon ends.
struct Farewell {
  ~Farewell() {
    const size_t left = Memory::kBytes - Memory::Get().free_bytes();
    std::fprintf(stderr, "threaded driver: %zu bytes of device memory left\n",
                 left);
  }
} farewell;

CUresult Copy(CUstream stream, void* to, const void* from, size_t bytes) {
  StreamOf(stream).Enqueue([=] { std::memcpy(to, from, bytes); });
  return CUDA_SUCCESS;
}

char* Host(CUdeviceptr pointer) { return reinterpret_cast<char*>(pointer); }

}  // namespace

Memory& Memory::Get() {
  static Memory& memory = *new Memory;
  return memory;
}

uint64_t Memory::Allocate(size_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > kBytes - used_bytes_) return 0;
  const auto start = reinterpret_cast<uint64_t>(Aligned(bytes));
  blocks_[start] = bytes;
  used_bytes_ += bytes;
  return start;
}

void Memory::Free(uint64_t start) {
  std::lock_guard lock(mutex_);
  const auto block = blocks_.find(start);
  if (block == blocks_.end()) Misused("memory is freed that there is not");
  used_bytes_ -= block->second;
  blocks_.erase(block);
  std::free(Host(start));
}

size_t Memory::free_bytes() {
  std::lock_guard lock(mutex_);
  return kBytes - used_bytes_;
}

std::vector<uint64_t> Memory::PointedTo(absl::Span<const uint64_t> words) {
  std::lock_guard lock(mutex_);
  std::vector<uint64_t> starts;
  for (const uint64_t word : words) {
    auto block = blocks_.upper_bound(word);
    if (block == blocks_.begin()) continue;
    block = std::prev(block);
    if (word < block->first + block->second) starts.push_back(block->first);
  }
  return starts;
}

bool Memory::Live(absl::Span<const uint64_t> starts) {
  std::lock_guard lock(mutex_);
  return std::ranges::all_of(
      starts, [&](uint64_t start) { return blocks_.contains(start); });
}

extern "C" {

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  RETURN_IF_FAULT(cuMemGetInfo, CurrentDevice());
  *free = Memory::Get().free_bytes();
  *total = Memory::kBytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t bytes,
                                 CUmemoryPool, CUstream stream) {
  RETURN_IF_FAULT(cuMemAllocFromPoolAsync, StreamOf(stream).device());
  *pointer = Memory::Get().Allocate(bytes);
  return *pointer == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  StreamOf(stream).Enqueue([=] { Memory::Get().Free(pointer); });
  RETURN_IF_FAULT(cuMemFreeAsync, StreamOf(stream).device());
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  RETURN_IF_FAULT(cuMemHostAlloc, CurrentDevice());
  *pointer = Aligned(bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* pointer) {
  std::free(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr pointer, unsigned char value, size_t bytes,
                         CUstream stream) {
  RETURN_IF_FAULT(cuMemsetD8Async, StreamOf(stream).device());
  StreamOf(stream).Enqueue([=] { std::memset(Host(pointer), value, bytes); });
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes,
                           CUstream stream) {
  RETURN_IF_FAULT(cuMemcpyHtoDAsync, StreamOf(stream).device());
  return Copy(stream, Host(to), from, bytes);
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes,
                           CUstream stream) {
  RETURN_IF_FAULT(cuMemcpyDtoHAsync, StreamOf(stream).device());
  return Copy(stream, to, Host(from), bytes);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                           CUstream stream) {
  RETURN_IF_FAULT(cuMemcpyDtoDAsync, StreamOf(stream).device());
  return Copy(stream, Host(to), Host(from), bytes);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from,
                           CUcontext, size_t bytes, CUstream stream) {
  RETURN_IF_FAULT(cuMemcpyPeerAsync, StreamOf(stream).device());
  return Copy(stream, Host(to), Host(from), bytes);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream stream) {
  RETURN_IF_FAULT(cuMemcpy2DAsync, StreamOf(stream).device());
  StreamOf(stream).Enqueue([copy = *copy] {
    const char* from = copy.srcMemoryType == CU_MEMORYTYPE_HOST
                           ? static_cast<const char*>(copy.srcHost)
                           : Host(copy.srcDevice);
    char* to = copy.dstMemoryType == CU_MEMORYTYPE_HOST
                   ? static_cast<char*>(copy.dstHost)
                   : Host(copy.dstDevice);
    from += copy.srcY * copy.srcPitch + copy.srcXInBytes;
    to += copy.dstY * copy.dstPitch + copy.dstXInBytes;
    for (size_t line = 0; line < copy.Height; ++line) {
      std::memcpy(to + line * copy.dstPitch, from + line * copy.srcPitch,
                  copy.WidthInBytes);
    }
  });
  return CUDA_SUCCESS;
}

}  // extern "C"
}  // namespace gemmd::threaded_driver
