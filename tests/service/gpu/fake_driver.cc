#include "tests/service/gpu/fake_driver.h"

#include <algorithm>
#include <cstring>

namespace gemmd::gpu {

FakeDriver* FakeDriver::current = nullptr;

namespace {

FakeDriver& Fake() { return *FakeDriver::current; }

#define ENTER(name)                                                   \
  if (CUresult result = Fake().Enter(name); result != CUDA_SUCCESS) { \
    return result;                                                    \
  }

template <typename Handle>
CUresult Make(const char* name, Handle* handle) {
  ENTER(name);
  *handle = Fake().NewHandle<Handle>();
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult Drop(const char* name, Handle handle) {
  ENTER(name);
  Fake().DropHandle(handle);
  return CUDA_SUCCESS;
}

char* NewMemory(size_t bytes) {
  // Aligned as the driver aligns, filled with what looks like old contents.
  auto memory = std::make_unique<char[]>(bytes + 256);
  std::memset(memory.get(), 0x5a, bytes + 256);
  const uintptr_t at = reinterpret_cast<uintptr_t>(memory.get());
  char* aligned = reinterpret_cast<char*>((at + 255) / 256 * 256);
  Fake().memory[aligned] = std::move(memory);
  return aligned;
}

char* Host(CUdeviceptr pointer) { return reinterpret_cast<char*>(pointer); }

CUresult GetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  ENTER("cuDeviceGetAttribute");
  *value = Fake().attributes[attribute];
  return CUDA_SUCCESS;
}

CUresult GetErrorName(CUresult result, const char** name) {
  if (result == CUDA_ERROR_UNKNOWN) return CUDA_ERROR_INVALID_VALUE;
  *name = "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}

CUresult PoolAttribute(CUmemoryPool, CUmemPool_attribute attribute,
                       void* value) {
  *static_cast<cuuint64_t*>(value) =
      attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ? Fake().pool_used
                                                    : Fake().pool_reserved;
  return CUDA_SUCCESS;
}

CUresult Allocate(CUdeviceptr* pointer, size_t bytes, CUmemoryPool, CUstream) {
  ENTER("cuMemAllocFromPoolAsync");
  *pointer = reinterpret_cast<CUdeviceptr>(NewMemory(bytes));
  return CUDA_SUCCESS;
}

CUresult Free(CUdeviceptr pointer, CUstream) {
  ENTER("cuMemFreeAsync");
  Fake().memory.erase(Host(pointer));
  return CUDA_SUCCESS;
}

CUresult HostAllocate(void** pointer, size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc");
  *pointer = NewMemory(bytes);
  return CUDA_SUCCESS;
}

CUresult HostFree(void* pointer) {
  ENTER("cuMemFreeHost");
  Fake().memory.erase(pointer);
  return CUDA_SUCCESS;
}

CUresult Memset(CUdeviceptr to, unsigned char value, size_t bytes, CUstream) {
  ENTER("cuMemsetD8Async");
  if (!Fake().memory_is_broken) std::memset(Host(to), value, bytes);
  return CUDA_SUCCESS;
}

CUresult ToDevice(CUdeviceptr to, const void* from, size_t bytes, CUstream) {
  ENTER("cuMemcpyHtoDAsync");
  std::memcpy(Host(to), from, bytes);
  return CUDA_SUCCESS;
}

CUresult ToHost(void* to, CUdeviceptr from, size_t bytes, CUstream) {
  ENTER("cuMemcpyDtoHAsync");
  std::memcpy(to, Host(from), bytes);
  return CUDA_SUCCESS;
}

CUresult Copy2D(const CUDA_MEMCPY2D* copy, CUstream) {
  ENTER("cuMemcpy2DAsync");
  // Touches whole lines of the destination, as the driver is allowed to.
  for (size_t line = 0; line < copy->Height; ++line) {
    std::memcpy(static_cast<char*>(copy->dstHost) + line * copy->dstPitch,
                Host(copy->srcDevice) + line * copy->srcPitch,
                copy->WidthInBytes);
  }
  return CUDA_SUCCESS;
}

CUresult GetFunction(CUfunction* function, CUmodule module,
                     const char* symbol) {
  ENTER("cuModuleGetFunction");
  if (Fake().symbols.count(symbol) == 0) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(module);
  return CUDA_SUCCESS;
}

CUresult LaunchKernel(const CUlaunchConfig* config, CUfunction function,
                      void** parameters, void**) {
  ENTER("cuLaunchKernelEx");
  FakeDriver::Launch launch = {function, *config, false, parameters[0]};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    launch.overlaps |=
        config->attrs[i].id ==
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
        config->attrs[i].value.programmaticStreamSerializationAllowed != 0;
  }
  if (Fake().on_launch != nullptr) Fake().on_launch(launch);
  launch.argument = nullptr;
  launch.config.attrs = nullptr;
  Fake().launches.push_back(launch);
  return CUDA_SUCCESS;
}

CUresult EncodeTiled(CUtensorMap* map, CUtensorMapDataType type,
                     cuuint32_t rank, void* pointer, const cuuint64_t* size,
                     const cuuint64_t* strides, const cuuint32_t* box,
                     const cuuint32_t*, CUtensorMapInterleave,
                     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                     CUtensorMapFloatOOBfill fill) {
  ENTER("cuTensorMapEncodeTiled");
  // The rules of the driver API that a planner could break.
  const bool legal = rank == 2 && strides[0] % 16 == 0 && box[0] <= 256 &&
                     box[1] <= 256 &&
                     reinterpret_cast<uintptr_t>(pointer) % 16 == 0 &&
                     fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  if (!legal) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t number = Fake().maps.size() + 1;
  std::memset(map, 0, sizeof(*map));
  std::memcpy(map, &number, sizeof(number));
  Fake().maps.push_back({type, reinterpret_cast<uint64_t>(pointer), size[0],
                         size[1], strides[0], box[0], box[1], swizzle, number});
  return CUDA_SUCCESS;
}

}  // namespace

FakeDriver::FakeDriver() : table_(std::make_shared<DriverTable>()) {
  current = this;
  attributes = {
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
  };
  DriverTable& t = *table_;
  t.cuGetErrorName = GetErrorName;
  t.cuDriverGetVersion = [](int* version) {
    *version = 13000;
    return CUDA_SUCCESS;
  };
  t.cuDeviceGet = [](CUdevice* device, int ordinal) {
    *device = ordinal;
    return CUDA_SUCCESS;
  };
  t.cuDeviceGetName = [](char* name, int bytes, CUdevice) {
    std::strncpy(name, "Fake Hopper", static_cast<size_t>(bytes));
    return CUDA_SUCCESS;
  };
  t.cuDeviceGetAttribute = GetAttribute;
  t.cuDeviceTotalMem = [](size_t* bytes, CUdevice) {
    *bytes = size_t{80} << 30;
    return CUDA_SUCCESS;
  };
  t.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) {
    return Make("cuDevicePrimaryCtxRetain", context);
  };
  // The only context is the one handle that is given by device.
  t.cuDevicePrimaryCtxRelease = [](CUdevice) {
    ENTER("cuDevicePrimaryCtxRelease");
    return CUDA_SUCCESS;
  };
  t.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  t.cuStreamCreate = [](CUstream* stream, unsigned) {
    return Make("cuStreamCreate", stream);
  };
  t.cuStreamDestroy = [](CUstream stream) {
    return Drop("cuStreamDestroy", stream);
  };
  t.cuStreamSynchronize = [](CUstream) {
    ENTER("cuStreamSynchronize");
    return CUDA_SUCCESS;
  };
  t.cuStreamWaitEvent = [](CUstream, CUevent, unsigned) {
    ENTER("cuStreamWaitEvent");
    return CUDA_SUCCESS;
  };
  t.cuEventCreate = [](CUevent* event, unsigned) {
    return Make("cuEventCreate", event);
  };
  t.cuEventDestroy = [](CUevent event) {
    return Drop("cuEventDestroy", event);
  };
  t.cuEventRecord = [](CUevent, CUstream) {
    ENTER("cuEventRecord");
    return CUDA_SUCCESS;
  };
  t.cuEventSynchronize = [](CUevent) {
    ENTER("cuEventSynchronize");
    return CUDA_SUCCESS;
  };
  t.cuModuleLoadData = [](CUmodule* module, const void*) {
    return Make("cuModuleLoadData", module);
  };
  t.cuModuleUnload = [](CUmodule module) {
    return Drop("cuModuleUnload", module);
  };
  t.cuModuleGetFunction = GetFunction;
  t.cuFuncGetAttribute = [](int* value, CUfunction_attribute, CUfunction) {
    *value = 0;
    return CUDA_SUCCESS;
  };
  t.cuFuncSetAttribute = [](CUfunction, CUfunction_attribute, int) {
    ENTER("cuFuncSetAttribute");
    return CUDA_SUCCESS;
  };
  t.cuLaunchKernelEx = LaunchKernel;
  t.cuTensorMapEncodeTiled = EncodeTiled;
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
  t.cuMemPoolSetAttribute = [](CUmemoryPool, CUmemPool_attribute, void*) {
    ENTER("cuMemPoolSetAttribute");
    return CUDA_SUCCESS;
  };
  t.cuMemPoolGetAttribute = PoolAttribute;
  t.cuMemPoolTrimTo = [](CUmemoryPool, size_t) {
    ENTER("cuMemPoolTrimTo");
    return CUDA_SUCCESS;
  };
  t.cuMemAllocFromPoolAsync = Allocate;
  t.cuMemFreeAsync = Free;
  t.cuMemHostAlloc = HostAllocate;
  t.cuMemFreeHost = HostFree;
  t.cuMemsetD8Async = Memset;
  t.cuMemcpyHtoDAsync = ToDevice;
  t.cuMemcpyDtoHAsync = ToHost;
  t.cuMemcpy2DAsync = Copy2D;
}

FakeDriver::~FakeDriver() { current = nullptr; }

void FakeDriver::Fail(const std::string& function, CUresult result, int times) {
  failures_[function] = {result, times};
}

int FakeDriver::CountOf(const std::string& function) const {
  return static_cast<int>(std::count(calls_.begin(), calls_.end(), function));
}

size_t FakeDriver::live() const {
  // The primary context is retained and released by count, not by handle.
  const size_t contexts =
      static_cast<size_t>(CountOf("cuDevicePrimaryCtxRelease"));
  return handles_.size() - contexts + memory.size();
}

CUresult FakeDriver::Enter(const char* function) {
  calls_.push_back(function);
  const auto failure = failures_.find(function);
  if (failure == failures_.end() || failure->second.times == 0) {
    return CUDA_SUCCESS;
  }
  --failure->second.times;
  return failure->second.result;
}

}  // namespace gemmd::gpu
