#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/service/gpu/fake_calls.h"

namespace gemmd::gpu {
namespace {

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
    Fake().functions.at(function).has_large_clusters = value == 1;
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

}  // namespace

void InstallLaunches(DriverTable& t) {
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
    if (cluster > 8 && !Fake().functions.at(function).has_large_clusters) {
      return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    *clusters = Fake().largest_cluster < cluster ? 0 : 7;
    return CUDA_SUCCESS;
  };
  t.cuTensorMapEncodeTiled = EncodeTiled;
}

}  // namespace gemmd::gpu
