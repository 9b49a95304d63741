// Two GPUs, and what such a driver has not: graphs and the memory of other
// processes.
#include <cuda.h>

#include <cstdio>
#include <cstring>

#include "tests/integration/threaded_driver/faults.h"
#include "tests/integration/threaded_driver/memory.h"

namespace gemmd::threaded_driver {
namespace {

constexpr int kDevices = 2;
constexpr size_t kPoolBytes = 8;

thread_local int current_device = 0;

int AttributeOf(CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 9;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return 0;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return 132;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 227 << 10;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 50 << 20;
    default:
      return 1;
  }
}

// Contexts are numbers from one on.
CUcontext ContextOf(int device) {
  return reinterpret_cast<CUcontext>(static_cast<intptr_t>(device + 1));
}

}  // namespace

int CurrentDevice() { return current_device; }

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }

CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult result, const char** name) {
  *name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                             : "CUDA_ERROR_THAT_WAS_ASKED_FOR";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = kDevices;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int i) {
  *device = i;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int bytes, CUdevice) {
  std::snprintf(name, bytes, "threads");
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                              CUdevice) {
  *value = AttributeOf(attribute);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int bytes, CUdevice device) {
  std::snprintf(id, bytes, "0000:%02x:00.0", device + 1);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  std::memset(uuid, device + 1, sizeof(*uuid));
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = Memory::kBytes;
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
  *can = 1;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = ContextOf(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }

CUresult cuCtxSetCurrent(CUcontext context) {
  current_device = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps*) {
  *pool = reinterpret_cast<CUmemoryPool>(ContextOf(current_device));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool) { return CUDA_SUCCESS; }

CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) {
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc*, size_t) {
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void* value) {
  std::memset(value, 0, kPoolBytes);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool, size_t) { return CUDA_SUCCESS; }

CUresult cuMemHostRegister(void*, size_t, unsigned) { return CUDA_SUCCESS; }

CUresult cuMemHostUnregister(void*) { return CUDA_SUCCESS; }

#define UNSUPPORTED(function, ...) \
  CUresult function(__VA_ARGS__) { return CUDA_ERROR_NOT_SUPPORTED; }

UNSUPPORTED(cuStreamBeginCapture, CUstream, CUstreamCaptureMode)
UNSUPPORTED(cuStreamEndCapture, CUstream, CUgraph*)
UNSUPPORTED(cuGraphInstantiate, CUgraphExec*, CUgraph, unsigned long long)
UNSUPPORTED(cuGraphLaunch, CUgraphExec, CUstream)
UNSUPPORTED(cuGraphUpload, CUgraphExec, CUstream)
UNSUPPORTED(cuGraphDestroy, CUgraph)
UNSUPPORTED(cuGraphExecDestroy, CUgraphExec)
UNSUPPORTED(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle*,
            void*, CUmemAllocationHandleType)
UNSUPPORTED(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp*,
            CUmemGenericAllocationHandle)
UNSUPPORTED(cuMemGetAllocationGranularity, size_t*, const CUmemAllocationProp*,
            CUmemAllocationGranularity_flags)
UNSUPPORTED(cuMemRelease, CUmemGenericAllocationHandle)
UNSUPPORTED(cuMemAddressReserve, CUdeviceptr*, size_t, size_t, CUdeviceptr,
            unsigned long long)
UNSUPPORTED(cuMemAddressFree, CUdeviceptr, size_t)
UNSUPPORTED(cuMemMap, CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
            unsigned long long)
UNSUPPORTED(cuMemUnmap, CUdeviceptr, size_t)
UNSUPPORTED(cuMemSetAccess, CUdeviceptr, size_t, const CUmemAccessDesc*, size_t)
UNSUPPORTED(cuIpcOpenMemHandle, CUdeviceptr*, CUipcMemHandle, unsigned)
UNSUPPORTED(cuIpcCloseMemHandle, CUdeviceptr)
UNSUPPORTED(cuPointerGetAttribute, void*, CUpointer_attribute, CUdeviceptr)
UNSUPPORTED(cuMemGetAddressRange, CUdeviceptr*, size_t*, CUdeviceptr)

}  // extern "C"
}  // namespace gemmd::threaded_driver
