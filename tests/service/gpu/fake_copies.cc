#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/service/gpu/fake_calls.h"

namespace gemmd::gpu {
namespace {

CUresult Allocate(CUdeviceptr* pointer, size_t bytes, CUmemoryPool,
                  CUstream stream) {
  ENTER("cuMemAllocFromPoolAsync", stream);
  char* block = Fake().memory.New(FakeMemory::Kind::kDevice, bytes);
  *pointer = reinterpret_cast<CUdeviceptr>(block);
  Enqueue(stream, [block] { Fake().memory.Begin(block); });
  return CUDA_SUCCESS;
}

CUresult Free(CUdeviceptr pointer, CUstream stream) {
  ENTER("cuMemFreeAsync", stream, pointer);
  const std::string user = On("cuMemFreeAsync", stream);
  Fake().memory.Release(user, Host(pointer));
  Enqueue(stream, [user, pointer] { Fake().memory.End(user, Host(pointer)); });
  return CUDA_SUCCESS;
}

CUresult HostAllocate(void** pointer, size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc");
  *pointer = Fake().memory.New(FakeMemory::Kind::kPinned, bytes);
  Fake().memory.Begin(*pointer);
  return CUDA_SUCCESS;
}

CUresult HostFree(void* pointer) {
  ENTER("cuMemFreeHost");
  Fake().memory.Release("cuMemFreeHost", pointer);
  Fake().memory.End("cuMemFreeHost", pointer);
  return CUDA_SUCCESS;
}

CUresult HostRegister(void* pointer, size_t bytes, unsigned flags) {
  ENTER("cuMemHostRegister");
  EXPECT_EQ(flags, unsigned{CU_MEMHOSTREGISTER_PORTABLE});
  Fake().memory.Adopt(pointer, bytes);
  return CUDA_SUCCESS;
}

CUresult HostUnregister(void* pointer) {
  ENTER("cuMemHostUnregister");
  Fake().memory.Release("cuMemHostUnregister", pointer);
  Fake().memory.End("cuMemHostUnregister", pointer);
  return CUDA_SUCCESS;
}

bool Usable(const std::string& user, CUdeviceptr at, size_t bytes) {
  return Fake().memory.ExpectUsable(user, FakeMemory::Kind::kDevice, Host(at),
                                    bytes);
}

bool UsablePinned(const std::string& user, const void* at, size_t bytes) {
  return Fake().memory.ExpectUsable(user, FakeMemory::Kind::kPinned, at, bytes);
}

CUresult Memset(CUdeviceptr to, unsigned char value, size_t bytes,
                CUstream stream) {
  ENTER("cuMemsetD8Async", stream, to);
  const std::string user = On("cuMemsetD8Async", stream);
  Enqueue(stream, [=] {
    if (!Usable(user, to, bytes) || Fake().memory_is_broken) return;
    std::memset(Host(to), value, bytes);
  });
  return CUDA_SUCCESS;
}

CUresult ToDevice(CUdeviceptr to, const void* from, size_t bytes,
                  CUstream stream) {
  ENTER("cuMemcpyHtoDAsync", stream, to);
  const std::string user = On("cuMemcpyHtoDAsync", stream);
  Enqueue(stream, [=] {
    if (!Usable(user, to, bytes) || !UsablePinned(user, from, bytes)) return;
    std::memcpy(Host(to), from, bytes);
  });
  return CUDA_SUCCESS;
}

CUresult WithinDevice(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                      CUstream stream) {
  ENTER("cuMemcpyDtoDAsync", stream, to);
  const std::string user = On("cuMemcpyDtoDAsync", stream);
  Enqueue(stream, [=] {
    if (!Usable(user, to, bytes) || !Usable(user, from, bytes)) return;
    std::memcpy(Host(to), Host(from), bytes);
  });
  return CUDA_SUCCESS;
}

CUresult FromPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                  CUcontext from_context, size_t bytes, CUstream stream) {
  ENTER("cuMemcpyPeerAsync", stream, to);
  const std::string user = On("cuMemcpyPeerAsync", stream);
  Fake().peer_copies.push_back({to_context, from_context});
  Enqueue(stream, [=] {
    if (!Usable(user, to, bytes) || !Usable(user, from, bytes)) return;
    std::memcpy(Host(to), Host(from), bytes);
  });
  return CUDA_SUCCESS;
}

CUresult ToHost(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ENTER("cuMemcpyDtoHAsync", stream, from);
  const std::string user = On("cuMemcpyDtoHAsync", stream);
  Enqueue(stream, [=] {
    if (!Usable(user, from, bytes) || !UsablePinned(user, to, bytes)) return;
    if (!Fake().downloads_are_lost) std::memcpy(to, Host(from), bytes);
  });
  return CUDA_SUCCESS;
}

CUresult Copy2D(const CUDA_MEMCPY2D* parameters, CUstream stream) {
  const bool from_host = parameters->srcMemoryType == CU_MEMORYTYPE_HOST;
  const bool to_host = parameters->dstMemoryType == CU_MEMORYTYPE_HOST;
  ENTER("cuMemcpy2DAsync", stream,
        to_host ? parameters->srcDevice : parameters->dstDevice);
  const std::string user = On("cuMemcpy2DAsync", stream);
  Enqueue(stream, [user, from_host, to_host, copy = *parameters] {
    const auto* const from = static_cast<const char*>(
        from_host ? copy.srcHost : Host(copy.srcDevice));
    auto* const to =
        static_cast<char*>(to_host ? copy.dstHost : Host(copy.dstDevice));
    // The driver may want whole lines.
    const auto bytes = [&](size_t pitch) { return copy.Height * pitch; };
    const auto kind = [](bool of_host) {
      return of_host ? FakeMemory::Kind::kPinned : FakeMemory::Kind::kDevice;
    };
    FakeMemory& memory = Fake().memory;
    if (!memory.ExpectUsable(user, kind(from_host), from,
                             bytes(copy.srcPitch)) ||
        !memory.ExpectUsable(user, kind(to_host), to, bytes(copy.dstPitch))) {
      return;
    }
    for (size_t line = 0; line < copy.Height; ++line) {
      std::memcpy(to + line * copy.dstPitch, from + line * copy.srcPitch,
                  copy.WidthInBytes);
    }
  });
  return CUDA_SUCCESS;
}

CUresult PoolAttribute(CUmemoryPool, CUmemPool_attribute attribute,
                       void* value) {
  *static_cast<cuuint64_t*>(value) =
      attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ? Fake().pool_used
                                                    : Fake().pool_reserved;
  return CUDA_SUCCESS;
}

}  // namespace

void InstallCopies(DriverTable& t) {
  t.cuMemGetInfo = [](size_t* free_bytes, size_t* total_bytes) {
    ENTER("cuMemGetInfo");
    *free_bytes = Fake().free_bytes;
    *total_bytes = size_t{80} << 30;
    return CUDA_SUCCESS;
  };
  t.cuMemPoolCreate = [](CUmemoryPool* pool, const CUmemPoolProps*) {
    return Make("cuMemPoolCreate", pool);
  };
  t.cuMemPoolDestroy = [](CUmemoryPool pool) {
    return Drop("cuMemPoolDestroy", pool);
  };
  t.cuMemPoolSetAttribute = [](CUmemoryPool, CUmemPool_attribute attribute,
                               void* value) {
    ENTER("cuMemPoolSetAttribute");
    EXPECT_EQ(attribute, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
    Fake().pool_threshold = *static_cast<cuuint64_t*>(value);
    return CUDA_SUCCESS;
  };
  t.cuMemPoolSetAccess = [](CUmemoryPool, const CUmemAccessDesc* accesses,
                            size_t count) {
    ENTER("cuMemPoolSetAccess");
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(accesses->location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    Fake().admitted.push_back(accesses->location.id);
    return CUDA_SUCCESS;
  };
  t.cuMemPoolGetAttribute = PoolAttribute;
  t.cuMemPoolTrimTo = [](CUmemoryPool, size_t kept_bytes) {
    ENTER("cuMemPoolTrimTo");
    EXPECT_EQ(kept_bytes, 0u);
    return CUDA_SUCCESS;
  };
  t.cuMemAllocFromPoolAsync = Allocate;
  t.cuMemFreeAsync = Free;
  t.cuMemHostAlloc = HostAllocate;
  t.cuMemFreeHost = HostFree;
  t.cuMemHostRegister = HostRegister;
  t.cuMemHostUnregister = HostUnregister;
  t.cuMemsetD8Async = Memset;
  t.cuMemcpyHtoDAsync = ToDevice;
  t.cuMemcpyDtoDAsync = WithinDevice;
  t.cuMemcpyDtoHAsync = ToHost;
  t.cuMemcpy2DAsync = Copy2D;
  t.cuMemcpyPeerAsync = FromPeer;
}

}  // namespace gemmd::gpu
