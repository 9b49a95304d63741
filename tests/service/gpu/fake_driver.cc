#include "tests/service/gpu/fake_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "templates/common/arguments.h"

namespace gemmd::gpu {

FakeDriver* FakeDriver::current = nullptr;

namespace {

FakeDriver& Fake() { return *FakeDriver::current; }

// The context that is bound to this thread.
thread_local CUcontext bound = nullptr;

// A tensor map is this and its number, so that maps are found in arguments.
constexpr uint64_t kMapTag = 0x7e50'a11a'0000'0000;
constexpr uint64_t kTagBits = 0xffff'ffff'0000'0000;

template <typename Handle>
uintptr_t Id(Handle handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

#define ENTER(...)                                                           \
  if (CUresult result = Fake().Enter(__VA_ARGS__); result != CUDA_SUCCESS) { \
    return result;                                                           \
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

// Name of a call for messages: "cuMemFreeAsync on stream 3".
std::string On(const char* function, CUstream stream) {
  return std::string(function) + " on stream " + std::to_string(Id(stream));
}

void Enqueue(CUstream stream, std::function<void()> work) {
  const auto captured = Fake().captured.find(Id(stream));
  if (captured != Fake().captured.end()) {
    captured->second.push_back(std::move(work));
  } else {
    Fake().timeline.Enqueue(Id(stream), std::move(work));
  }
}

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
    std::memcpy(to, Host(from), bytes);
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

CUresult GetFunction(CUfunction* function, CUmodule module,
                     const char* symbol) {
  ENTER("cuModuleGetFunction", nullptr, Id(module));
  if (Fake().symbols.count(symbol) == 0) return CUDA_ERROR_NOT_FOUND;
  CUfunction& known = Fake().module_functions[{module, symbol}];
  if (known == nullptr) known = Fake().NewFunction(symbol);
  *function = known;
  return CUDA_SUCCESS;
}

CUresult SetFunctionAttribute(CUfunction function,
                              CUfunction_attribute attribute, int value) {
  ENTER("cuFuncSetAttribute", nullptr, Id(function));
  if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
    return CUDA_SUCCESS;
  }
  const int most =
      Fake().attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN] -
      Fake().static_shared_bytes;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
      value > most) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Fake().functions.at(function).dynamic_limit_bytes = value;
  return CUDA_SUCCESS;
}

// All that an argument points to has to be there while its kernel runs. Words
// that look like neither maps nor pointers into our memory are left alone.
void CheckPointers(const std::string& user, const std::string& bytes) {
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes.size();
       at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    if ((word & kTagBits) == kMapTag) {
      word = Fake().MapOf(bytes.data() + at).pointer;
    }
    Fake().memory.ExpectNotDangling(user, Host(word));
  }
}

CUresult LaunchKernel(const CUlaunchConfig* config, CUfunction function,
                      void** parameters, void**) {
  ENTER("cuLaunchKernelEx", config->hStream, Id(function));
  const auto known = Fake().functions.find(function);
  if (known == Fake().functions.end()) {
    ADD_FAILURE() << "cuLaunchKernelEx of a function that no module gave";
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (config->sharedMemBytes >
      static_cast<unsigned>(known->second.dynamic_limit_bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::string& symbol = known->second.symbol;
  FakeDriver::Launch launch = {function,
                               symbol,
                               *config,
                               false,
                               1,
                               std::string(static_cast<char*>(parameters[0]),
                                           Fake().argument_bytes[symbol])};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    launch.overlaps |=
        config->attrs[i].id ==
            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
        config->attrs[i].value.programmaticStreamSerializationAllowed != 0;
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      launch.cluster = config->attrs[i].value.clusterDim.x;
    }
  }
  launch.config.attrs = nullptr;
  Fake().launches.push_back(launch);
  Enqueue(config->hStream, [launch] {
    CheckPointers(On(launch.symbol.c_str(), launch.config.hStream),
                  launch.bytes);
    if (Fake().run_kernel) Fake().run_kernel(launch);
  });
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
  const bool legal = rank == 3 && strides[0] % 16 == 0 &&
                     strides[1] % 16 == 0 && box[0] <= 256 && box[1] <= 256 &&
                     box[2] == 1 &&
                     reinterpret_cast<uintptr_t>(pointer) % 16 == 0 &&
                     fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  if (!legal) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t number = kMapTag | Fake().maps.size();
  std::memset(map, 0, sizeof(*map));
  std::memcpy(map, &number, sizeof(number));
  Fake().maps.push_back({type, reinterpret_cast<uint64_t>(pointer), size[0],
                         size[1], size[2], strides[0], strides[1], box[0],
                         box[1], swizzle});
  return CUDA_SUCCESS;
}

CUresult BeginCapture(CUstream stream, CUstreamCaptureMode) {
  ENTER("cuStreamBeginCapture", stream);
  Fake().captured[Id(stream)];
  return CUDA_SUCCESS;
}

CUresult EndCapture(CUstream stream, CUgraph* graph) {
  ENTER("cuStreamEndCapture", stream);
  *graph = Fake().NewHandle<CUgraph>();
  Fake().graphs[Id(*graph)] = std::move(Fake().captured[Id(stream)]);
  Fake().captured.erase(Id(stream));
  return CUDA_SUCCESS;
}

CUresult Instantiate(CUgraphExec* executable, CUgraph graph,
                     unsigned long long) {
  ENTER("cuGraphInstantiate", nullptr, Id(graph));
  *executable = Fake().NewHandle<CUgraphExec>();
  Fake().graphs[Id(*executable)] = Fake().graphs[Id(graph)];
  return CUDA_SUCCESS;
}

CUresult LaunchGraph(CUgraphExec executable, CUstream stream) {
  ENTER("cuGraphLaunch", stream, Id(executable));
  for (const auto& work : Fake().graphs[Id(executable)]) Enqueue(stream, work);
  return CUDA_SUCCESS;
}

CUresult RecordEvent(CUevent event, CUstream stream) {
  ENTER("cuEventRecord", stream, Id(event));
  Enqueue(stream, [event] { Fake().event_us[event] = Fake().clock_us; });
  Fake().events[event] = Fake().timeline.End(Id(stream));
  return CUDA_SUCCESS;
}

}  // namespace

FakeDriver::FakeDriver() : table_(std::make_shared<DriverTable>()) {
  current = this;
  bound = nullptr;
  argument_bytes = {{"gemmd_kernel", sizeof(Arguments)},
                    {"gemmd_reduce", sizeof(ReduceArguments)},
                    {"gemmd_line_bits", sizeof(LineBitsArguments)}};
  attributes = {
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
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
  t.cuDeviceGetPCIBusId = [](char* id, int bytes, CUdevice) {
    std::strncpy(id, "0000:18:00.0", static_cast<size_t>(bytes));
    return CUDA_SUCCESS;
  };
  t.cuDeviceTotalMem = [](size_t* bytes, CUdevice) {
    *bytes = size_t{80} << 30;
    return CUDA_SUCCESS;
  };
  t.cuDeviceCanAccessPeer = [](int* able, CUdevice peer, CUdevice device) {
    EXPECT_NE(peer, device);
    *able = peer != FakeDriver::kFarDevice && device != FakeDriver::kFarDevice;
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
  t.cuCtxSetCurrent = [](CUcontext context) {
    bound = context;
    return CUDA_SUCCESS;
  };
  t.cuStreamCreate = [](CUstream* stream, unsigned) {
    return Make("cuStreamCreate", stream);
  };
  t.cuStreamDestroy = [](CUstream stream) {
    return Drop("cuStreamDestroy", stream);
  };
  t.cuStreamSynchronize = [](CUstream stream) {
    ENTER("cuStreamSynchronize", stream);
    Fake().timeline.RunTo(Fake().timeline.End(Id(stream)));
    return CUDA_SUCCESS;
  };
  t.cuStreamWaitEvent = [](CUstream stream, CUevent event, unsigned) {
    ENTER("cuStreamWaitEvent", stream, Id(event));
    Fake().timeline.Delay(Id(stream), Fake().events[event]);
    return CUDA_SUCCESS;
  };
  t.cuEventCreate = [](CUevent* event, unsigned) {
    return Make("cuEventCreate", event);
  };
  t.cuEventDestroy = [](CUevent event) {
    return Drop("cuEventDestroy", event);
  };
  t.cuEventRecord = RecordEvent;
  t.cuEventElapsedTime = [](float* ms, CUevent begin, CUevent end) {
    *ms = static_cast<float>((Fake().event_us[end] - Fake().event_us[begin]) /
                             1000);
    return CUDA_SUCCESS;
  };
  t.cuStreamBeginCapture = BeginCapture;
  t.cuStreamEndCapture = EndCapture;
  t.cuGraphInstantiate = Instantiate;
  t.cuGraphUpload = [](CUgraphExec, CUstream) { return CUDA_SUCCESS; };
  t.cuGraphLaunch = LaunchGraph;
  t.cuGraphDestroy = [](CUgraph graph) {
    return Drop("cuGraphDestroy", graph);
  };
  t.cuGraphExecDestroy = [](CUgraphExec executable) {
    return Drop("cuGraphExecDestroy", executable);
  };
  t.cuEventSynchronize = [](CUevent event) {
    ENTER("cuEventSynchronize", nullptr, Id(event));
    Fake().timeline.RunTo(Fake().events[event]);
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
    *value = Fake().static_shared_bytes;
    return CUDA_SUCCESS;
  };
  t.cuFuncSetAttribute = SetFunctionAttribute;
  t.cuLaunchKernelEx = LaunchKernel;
  t.cuOccupancyMaxActiveClusters = [](int* clusters, CUfunction function,
                                      const CUlaunchConfig* config) {
    ENTER("cuOccupancyMaxActiveClusters", nullptr, Id(function));
    const unsigned cluster = config->attrs[0].value.clusterDim.x;
    *clusters = Fake().largest_cluster < cluster ? 0 : 7;
    return CUDA_SUCCESS;
  };
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
  t.cuMemPoolSetAccess = [](CUmemoryPool, const CUmemAccessDesc* accesses,
                            size_t count) {
    ENTER("cuMemPoolSetAccess");
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(accesses->location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    Fake().admitted.push_back(accesses->location.id);
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
  t.cuMemHostRegister = HostRegister;
  t.cuMemHostUnregister = HostUnregister;
  t.cuMemsetD8Async = Memset;
  t.cuMemcpyHtoDAsync = ToDevice;
  t.cuMemcpyDtoDAsync = WithinDevice;
  t.cuMemcpyDtoHAsync = ToHost;
  t.cuMemcpy2DAsync = Copy2D;
  t.cuMemcpyPeerAsync = FromPeer;
  InstallImports(t);
}

FakeDriver::~FakeDriver() {
  Finish();
  current = nullptr;
}

void FakeDriver::Fail(const std::string& function, CUresult result, int times) {
  failures_[function] = {result, times};
}

std::vector<std::string> FakeDriver::names() const {
  std::vector<std::string> names;
  for (const Call& call : calls_) names.push_back(call.function);
  return names;
}

int FakeDriver::CountOf(const std::string& function) const {
  return static_cast<int>(std::count_if(
      calls_.begin(), calls_.end(),
      [&](const Call& call) { return call.function == function; }));
}

size_t FakeDriver::live() const {
  // The primary context is retained and released by count, not by handle.
  const size_t contexts =
      static_cast<size_t>(CountOf("cuDevicePrimaryCtxRelease"));
  return handles_.size() - contexts + memory.live();
}

const FakeDriver::EncodedMap& FakeDriver::MapOf(const void* map) const {
  uint64_t word;
  std::memcpy(&word, map, sizeof(word));
  return maps.at(word & ~kTagBits);
}

CUfunction FakeDriver::NewFunction(const std::string& symbol) {
  // Not a handle to release: functions live as long as their module.
  const auto function = reinterpret_cast<CUfunction>(++next_);
  functions[function] = {.symbol = symbol};
  return function;
}

CUresult FakeDriver::Enter(const char* function, CUstream stream,
                           uintptr_t object) {
  EXPECT_TRUE(bound != nullptr || std::strncmp(function, "cuDevice", 8) == 0 ||
              std::strncmp(function, "cuTensorMap", 11) == 0)
      << function << " on a thread without a context";
  calls_.push_back({function, Id(stream), object});
  const auto failure = failures_.find(function);
  if (failure == failures_.end() || failure->second.times == 0) {
    return CUDA_SUCCESS;
  }
  --failure->second.times;
  return failure->second.result;
}

}  // namespace gemmd::gpu
