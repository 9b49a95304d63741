#include "tests/service/gpu/fake_exports.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "tests/service/gpu/fake_calls.h"

namespace gemmd::gpu {
namespace {

FakeExports& Exports() { return Fake().exports; }

// Handles of IPC have this at their start, then their number.
constexpr uint64_t kIpcTag = 0x1bc0'1bc0'1bc0'1bc0;

uint64_t InodeOf(int fd) {
  struct stat status = {};
  return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

CUresult Import(CUmemGenericAllocationHandle* handle, void* fd,
                CUmemAllocationHandleType type) {
  ENTER("cuMemImportFromShareableHandle");
  EXPECT_EQ(type, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  FakeExports::Allocation* const found =
      Exports().OfDescriptor(static_cast<int>(reinterpret_cast<intptr_t>(fd)));
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ++found->handles;
  *handle = Exports().HandleOf(*found);
  return CUDA_SUCCESS;
}

CUresult Properties(CUmemAllocationProp* properties,
                    CUmemGenericAllocationHandle handle) {
  ENTER("cuMemGetAllocationPropertiesFromHandle");
  const FakeExports::Allocation& allocation = *Exports().OfHandle(handle);
  *properties = {};
  properties->type = allocation.type;
  properties->location.type = allocation.location;
  properties->location.id = allocation.device;
  return CUDA_SUCCESS;
}

CUresult Reserve(CUdeviceptr* at, size_t bytes, size_t, CUdeviceptr,
                 unsigned long long) {
  ENTER("cuMemAddressReserve");
  *at = reinterpret_cast<CUdeviceptr>(
      Fake().memory.New(FakeMemory::Kind::kDevice, bytes));
  Exports().mappings[*at] = {.bytes = bytes};
  return CUDA_SUCCESS;
}

CUresult FreeAddress(CUdeviceptr at, size_t bytes) {
  ENTER("cuMemAddressFree");
  const FakeExports::Mapping& mapping = Exports().mappings.at(at);
  EXPECT_EQ(mapping.bytes, bytes);
  EXPECT_EQ(mapping.allocation, nullptr) << "freed while it is mapped";
  Exports().mappings.erase(at);
  return CUDA_SUCCESS;
}

CUresult Map(CUdeviceptr at, size_t bytes, size_t offset,
             CUmemGenericAllocationHandle handle, unsigned long long) {
  ENTER("cuMemMap");
  FakeExports::Mapping& mapping = Exports().mappings.at(at);
  FakeExports::Allocation& allocation = *Exports().OfHandle(handle);
  if (offset != 0 || bytes > mapping.bytes || bytes > allocation.bytes ||
      bytes % FakeExports::kUnit != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  mapping.allocation = &allocation;
  ++allocation.mappings;
  return CUDA_SUCCESS;
}

CUresult SetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access,
                   size_t count) {
  ENTER("cuMemSetAccess");
  FakeExports::Mapping& mapping = Exports().mappings.at(at);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(access->flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(access->location.id, mapping.allocation->device);
  EXPECT_EQ(bytes, mapping.bytes);
  mapping.accessible = true;
  Fake().memory.Begin(Host(at));
  return CUDA_SUCCESS;
}

CUresult Unmap(CUdeviceptr at, size_t) {
  ENTER("cuMemUnmap");
  FakeExports::Mapping& mapping = Exports().mappings.at(at);
  --mapping.allocation->mappings;
  mapping.allocation = nullptr;
  if (mapping.accessible) {
    Fake().memory.Release("cuMemUnmap", Host(at));
    Fake().memory.End("cuMemUnmap", Host(at));
  }
  return CUDA_SUCCESS;
}

CUresult OpenIpc(CUdeviceptr* at, CUipcMemHandle handle, unsigned flags) {
  ENTER("cuIpcOpenMemHandle");
  EXPECT_EQ(flags, unsigned{CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS});
  FakeExports::Allocation* const found = Exports().OfIpc(handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  char* const block =
      Fake().memory.New(FakeMemory::Kind::kDevice, found->bytes);
  Fake().memory.Begin(block);
  const auto base = reinterpret_cast<CUdeviceptr>(block);
  *at = base + found->offset;
  ++found->mappings;
  Exports().mappings[*at] = {.bytes = found->bytes,
                             .allocation = found,
                             .accessible = true,
                             .base = base};
  return CUDA_SUCCESS;
}

CUresult CloseIpc(CUdeviceptr at) {
  ENTER("cuIpcCloseMemHandle");
  const FakeExports::Mapping& mapping = Exports().mappings.at(at);
  --mapping.allocation->mappings;
  Fake().memory.Release("cuIpcCloseMemHandle", Host(mapping.base));
  Fake().memory.End("cuIpcCloseMemHandle", Host(mapping.base));
  Exports().mappings.erase(at);
  return CUDA_SUCCESS;
}

CUresult PointerAttribute(void* value, CUpointer_attribute attribute,
                          CUdeviceptr at) {
  ENTER("cuPointerGetAttribute");
  EXPECT_EQ(attribute, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
  *static_cast<int*>(value) = Exports().mappings.at(at).allocation->device;
  return CUDA_SUCCESS;
}

CUresult AddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr at) {
  ENTER("cuMemGetAddressRange");
  const FakeExports::Mapping& mapping = Exports().mappings.at(at);
  *base = mapping.base;
  *bytes = mapping.bytes;
  return CUDA_SUCCESS;
}

}  // namespace

jit::UniqueFd FakeExports::Descriptor(Allocation allocation) {
  jit::UniqueFd fd(memfd_create("fake", MFD_CLOEXEC));
  allocations_[InodeOf(fd.get())] = allocation;
  return fd;
}

std::string FakeExports::IpcHandle(Allocation allocation) {
  const uint64_t words[2] = {kIpcTag, next_ipc_++};
  allocations_[words[1]] = allocation;
  std::string handle(sizeof(CUipcMemHandle), '\0');
  std::memcpy(handle.data(), words, sizeof words);
  return handle;
}

FakeExports::Allocation* FakeExports::OfDescriptor(int fd) {
  const auto found = allocations_.find(InodeOf(fd));
  return found == allocations_.end() ? nullptr : &found->second;
}

FakeExports::Allocation* FakeExports::OfHandle(
    CUmemGenericAllocationHandle handle) {
  return &allocations_.at(handle);
}

FakeExports::Allocation* FakeExports::OfIpc(const CUipcMemHandle& handle) {
  uint64_t words[2];
  std::memcpy(words, handle.reserved, sizeof words);
  const auto found = allocations_.find(words[1]);
  return words[0] != kIpcTag || found == allocations_.end() ? nullptr
                                                            : &found->second;
}

CUmemGenericAllocationHandle FakeExports::HandleOf(
    const Allocation& allocation) const {
  for (const auto& [name, known] : allocations_) {
    if (&known == &allocation) return name;
  }
  return 0;
}

int FakeExports::live() const {
  int live = static_cast<int>(mappings.size());
  for (const auto& [name, allocation] : allocations_) {
    live += allocation.handles + allocation.mappings;
  }
  return live;
}

void InstallImports(DriverTable& t) {
  t.cuDeviceGetUuid = [](CUuuid* uuid, CUdevice device) {
    std::memset(uuid->bytes, 0x10 + device, sizeof uuid->bytes);
    return CUDA_SUCCESS;
  };
  t.cuMemImportFromShareableHandle = Import;
  t.cuMemGetAllocationPropertiesFromHandle = Properties;
  t.cuMemGetAllocationGranularity = [](size_t* bytes,
                                       const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
    *bytes = FakeExports::kUnit;
    return CUDA_SUCCESS;
  };
  t.cuMemRelease = [](CUmemGenericAllocationHandle handle) {
    ENTER("cuMemRelease");
    --Exports().OfHandle(handle)->handles;
    return CUDA_SUCCESS;
  };
  t.cuMemAddressReserve = Reserve;
  t.cuMemAddressFree = FreeAddress;
  t.cuMemMap = Map;
  t.cuMemUnmap = Unmap;
  t.cuMemSetAccess = SetAccess;
  t.cuIpcOpenMemHandle = OpenIpc;
  t.cuIpcCloseMemHandle = CloseIpc;
  t.cuPointerGetAttribute = PointerAttribute;
  t.cuMemGetAddressRange = AddressRange;
}

}  // namespace gemmd::gpu
