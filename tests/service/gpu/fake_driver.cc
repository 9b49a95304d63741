#include "tests/service/gpu/fake_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "templates/common/arguments.h"
#include "tests/service/gpu/fake_calls.h"

namespace gemmd::gpu {

FakeDriver* FakeDriver::current = nullptr;

namespace {

// The context that is bound to this thread.
thread_local CUcontext bound = nullptr;

CUresult GetAttribute(int* value, CUdevice_attribute attribute,
                      CUdevice device) {
  ENTER("cuDeviceGetAttribute");
  const auto own = Fake().device_attributes.find({device, attribute});
  *value = own != Fake().device_attributes.end() ? own->second
                                                 : Fake().attributes[attribute];
  return CUDA_SUCCESS;
}

CUresult CreateEvent(CUevent* event, unsigned flags) {
  const CUresult result = Make("cuEventCreate", event);
  const bool timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  if (result == CUDA_SUCCESS && timed) Fake().timed_events.insert(*event);
  return result;
}

CUresult ElapsedTime(float* ms, CUevent begin, CUevent end) {
  for (const CUevent event : {begin, end}) {
    if (!Fake().timed_events.contains(event)) return CUDA_ERROR_INVALID_HANDLE;
  }
  *ms = static_cast<float>((Fake().event_us[end] - Fake().event_us[begin]) /
                           1000);
  return CUDA_SUCCESS;
}

CUresult GetErrorName(CUresult result, const char** name) {
  if (result == CUDA_ERROR_UNKNOWN) return CUDA_ERROR_INVALID_VALUE;
  *name = "CUDA_ERROR_FAKE";
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
    *version = Fake().driver_version;
    return CUDA_SUCCESS;
  };
  t.cuDeviceGetCount = [](int* count) {
    *count = Fake().devices;
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
  t.cuEventCreate = CreateEvent;
  t.cuEventDestroy = [](CUevent event) {
    return Drop("cuEventDestroy", event);
  };
  t.cuEventRecord = RecordEvent;
  t.cuEventElapsedTime = ElapsedTime;
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
  InstallCopies(t);
  InstallLaunches(t);
  InstallImports(t);
}

FakeDriver::~FakeDriver() {
  Finish();
  current = nullptr;
}

void FakeDriver::Fail(const std::string& function, CUresult result, int times,
                      int after) {
  failures_[function] = {result, times, after};
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
  if (failure->second.after > 0) {
    --failure->second.after;
    return CUDA_SUCCESS;
  }
  --failure->second.times;
  return failure->second.result;
}

}  // namespace gemmd::gpu
