// What other processes share of the fake driver's GPUs: allocations that have a
// descriptor, and others that have a handle of legacy IPC. Used by one thread
// at a time.
#ifndef GEMMD_TESTS_SERVICE_GPU_FAKE_EXPORTS_H_
#define GEMMD_TESTS_SERVICE_GPU_FAKE_EXPORTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "jit/base/file.h"
#include "service/gpu/driver_table.h"

namespace gemmd::gpu {

// cuMemImportFromShareableHandle and what follows, and cuIpcOpenMemHandle, of
// the running FakeDriver.
void InstallImports(DriverTable& table);

class FakeExports {
 public:
  static constexpr size_t kUnit = 2 << 20;  // Of what has a descriptor.

  struct Allocation {
    size_t bytes = 0;
    int device = 0;
    CUmemAllocationType type = CU_MEM_ALLOCATION_TYPE_PINNED;
    CUmemLocationType location = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t offset = 0;  // Of an IPC handle, in its block.
    int handles = 0;    // Imports that were not released,
    int mappings = 0;   // and mappings of it.
  };

  // The descriptor of an allocation.
  jit::UniqueFd Descriptor(Allocation allocation);
  // 64 bytes.
  std::string IpcHandle(Allocation allocation);

  // Null for a descriptor, or bytes, that name no allocation.
  Allocation* OfDescriptor(int fd);
  Allocation* OfHandle(CUmemGenericAllocationHandle handle);
  Allocation* OfIpc(const CUipcMemHandle& handle);
  CUmemGenericAllocationHandle HandleOf(const Allocation& allocation) const;
  // Handles and mappings that are left.
  int live() const;

  struct Mapping {
    size_t bytes = 0;
    Allocation* allocation = nullptr;  // Null: reserved alone.
    bool accessible = false;
    CUdeviceptr base = 0;  // Of the block, of legacy IPC.
  };
  std::map<CUdeviceptr, Mapping> mappings;

 private:
  std::map<uint64_t, Allocation> allocations_;  // By inode, or number.
  uint64_t next_ipc_ = 1;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_TESTS_SERVICE_GPU_FAKE_EXPORTS_H_
