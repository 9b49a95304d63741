// The whole CUDA driver surface of the daemon: one table of function pointers,
// filled from libcuda at run time. Nothing links libcuda; tests fill a table
// with fakes.
//
// cuda.h maps plain names to the versioned symbols that match its types
// (cuMemAlloc is cuMemAlloc_v2). Members carry the mapped names too, so
// `driver.cuMemAlloc(...)` compiles to the right one wherever cuda.h is
// included, which this header does.
//
// Immutable once loaded, thread-safe.
#ifndef GEMMD_SERVICE_GPU_DRIVER_TABLE_H_
#define GEMMD_SERVICE_GPU_DRIVER_TABLE_H_

#include <cuda.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

// Every driver function in use, by its plain name.
#define GEMMD_DRIVER_FUNCTIONS(X)           \
  X(cuInit)                                 \
  X(cuDriverGetVersion)                     \
  X(cuGetErrorName)                         \
  X(cuDeviceGet)                            \
  X(cuDeviceGetCount)                       \
  X(cuDeviceGetName)                        \
  X(cuDeviceGetAttribute)                   \
  X(cuDeviceGetPCIBusId)                    \
  X(cuDeviceGetUuid)                        \
  X(cuDeviceTotalMem)                       \
  X(cuDeviceCanAccessPeer)                  \
  X(cuDevicePrimaryCtxRetain)               \
  X(cuDevicePrimaryCtxRelease)              \
  X(cuCtxSetCurrent)                        \
  X(cuStreamCreate)                         \
  X(cuStreamDestroy)                        \
  X(cuStreamSynchronize)                    \
  X(cuStreamWaitEvent)                      \
  X(cuStreamBeginCapture)                   \
  X(cuStreamEndCapture)                     \
  X(cuEventCreate)                          \
  X(cuEventDestroy)                         \
  X(cuEventRecord)                          \
  X(cuEventSynchronize)                     \
  X(cuEventElapsedTime)                     \
  X(cuModuleLoadData)                       \
  X(cuModuleUnload)                         \
  X(cuModuleGetFunction)                    \
  X(cuFuncGetAttribute)                     \
  X(cuFuncSetAttribute)                     \
  X(cuLaunchKernelEx)                       \
  X(cuOccupancyMaxActiveClusters)           \
  X(cuTensorMapEncodeTiled)                 \
  X(cuMemGetInfo)                           \
  X(cuMemPoolCreate)                        \
  X(cuMemPoolDestroy)                       \
  X(cuMemPoolSetAttribute)                  \
  X(cuMemPoolSetAccess)                     \
  X(cuMemPoolGetAttribute)                  \
  X(cuMemPoolTrimTo)                        \
  X(cuMemAllocFromPoolAsync)                \
  X(cuMemFreeAsync)                         \
  X(cuMemHostAlloc)                         \
  X(cuMemFreeHost)                          \
  X(cuMemHostRegister)                      \
  X(cuMemHostUnregister)                    \
  X(cuMemImportFromShareableHandle)         \
  X(cuMemGetAllocationPropertiesFromHandle) \
  X(cuMemGetAllocationGranularity)          \
  X(cuMemRelease)                           \
  X(cuMemAddressReserve)                    \
  X(cuMemAddressFree)                       \
  X(cuMemMap)                               \
  X(cuMemUnmap)                             \
  X(cuMemSetAccess)                         \
  X(cuIpcOpenMemHandle)                     \
  X(cuIpcCloseMemHandle)                    \
  X(cuPointerGetAttribute)                  \
  X(cuMemGetAddressRange)                   \
  X(cuMemsetD8Async)                        \
  X(cuMemcpyHtoDAsync)                      \
  X(cuMemcpyDtoHAsync)                      \
  X(cuMemcpyDtoDAsync)                      \
  X(cuMemcpy2DAsync)                        \
  X(cuMemcpyPeerAsync)                      \
  X(cuGraphInstantiate)                     \
  X(cuGraphLaunch)                          \
  X(cuGraphUpload)                          \
  X(cuGraphDestroy)                         \
  X(cuGraphExecDestroy)

namespace gemmd::gpu {

struct DriverTable {
#define GEMMD_DECLARE(function) decltype(&::function) function = nullptr;
  GEMMD_DRIVER_FUNCTIONS(GEMMD_DECLARE)
#undef GEMMD_DECLARE
};

// Opens `library` and calls cuInit. Errors: NOT_FOUND when there is no such
// library (a machine without an NVIDIA driver), FAILED_PRECONDITION when it
// lacks a symbol (a driver that is too old), else what cuInit says
// (FAILED_PRECONDITION when the driver finds no device).
//
// The library stays open for the life of the process: libcuda starts threads
// and cannot be unloaded safely.
absl::StatusOr<std::shared_ptr<const DriverTable>> LoadDriver(
    const std::string& library = "libcuda.so.1");

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_DRIVER_TABLE_H_
