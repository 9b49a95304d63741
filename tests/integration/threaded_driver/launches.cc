// Modules and grids. Kernels compute nothing: what they point to has to live
// from their start to their end, and so has their module.
#include <cuda.h>
#include <elf.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/arguments.h"
#include "tests/integration/threaded_driver/faults.h"
#include "tests/integration/threaded_driver/memory.h"
#include "tests/integration/threaded_driver/streams.h"

namespace gemmd::threaded_driver {
namespace {

constexpr auto kKernelTime = std::chrono::microseconds(50);
// What the name of a kernel's first bank of constants begins with, and the
// bytes there before its arguments.
constexpr std::string_view kBank = ".nv.constant0.";
constexpr size_t kArgumentsStart = 0x210;

struct Module;

struct Function {
  Module* module;
  size_t argument_bytes;
};

struct Module {
  std::map<std::string, Function, std::less<>> functions;
  std::atomic<int> grids = 0;  // Enqueued, and not ended.
};

Module& ModuleOf(CUmodule handle) { return *reinterpret_cast<Module*>(handle); }

template <typename T>
T At(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// The kernels of a cubin: those that have a bank of constants.
void AddFunctions(const char* cubin, Module& module) {
  const auto header = At<Elf64_Ehdr>(cubin);
  const auto section = [&](int i) {
    return At<Elf64_Shdr>(cubin + header.e_shoff + i * header.e_shentsize);
  };
  const char* const names = cubin + section(header.e_shstrndx).sh_offset;
  for (int i = 0; i < header.e_shnum; ++i) {
    const std::string_view name = names + section(i).sh_name;
    if (!name.starts_with(kBank)) continue;
    module.functions[std::string(name.substr(kBank.size()))] = {
        &module, section(i).sh_size - kArgumentsStart};
  }
}

// The memory that an argument, or an array of such, points to.
std::vector<uint64_t> PointedToBy(const void* argument, size_t bytes) {
  std::vector<uint64_t> words(bytes / sizeof(uint64_t));
  std::memcpy(words.data(), argument, words.size() * sizeof(uint64_t));
  return Memory::Get().PointedTo(words);
}

// Of a group the products' arguments lie on the device.
std::vector<uint64_t> PointedToByGroup(const char* argument) {
  const auto group = At<GroupedArguments>(argument);
  int products = 0;
  while (products < kMaxGroups && group.first_unit[products] < group.units) {
    ++products;
  }
  return PointedToBy(group.products, products * sizeof(Arguments));
}

void ExpectLive(const std::vector<uint64_t>& starts, const char* when) {
  if (Memory::Get().Live(starts)) return;
  Misused(std::string("memory of a kernel was freed ") + when);
}

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  RETURN_IF_FAULT(cuModuleLoadData, CurrentDevice());
  auto* const loaded = new Module;
  AddFunctions(static_cast<const char*>(image), *loaded);
  *module = reinterpret_cast<CUmodule>(loaded);
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  if (ModuleOf(module).grids != 0) {
    Misused("a module is unloaded whose kernels have not ended");
  }
  delete &ModuleOf(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module,
                             const char* name) {
  RETURN_IF_FAULT(cuModuleGetFunction, CurrentDevice());
  auto& functions = ModuleOf(module).functions;
  const auto found = functions.find(std::string_view(name));
  if (found == functions.end()) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(&found->second);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                            CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction,
                                      const CUlaunchConfig*) {
  *clusters = 66;
  return CUDA_SUCCESS;
}

// Of a map only where its matrices are.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType,
                                cuuint32_t, void* pointer, const cuuint64_t*,
                                const cuuint64_t*, const cuuint32_t*,
                                const cuuint32_t*, CUtensorMapInterleave,
                                CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  RETURN_IF_FAULT(cuTensorMapEncodeTiled, CurrentDevice());
  *map = {};
  map->opaque[0] = reinterpret_cast<uint64_t>(pointer);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle,
                          void** arguments, void**) {
  Stream& stream = StreamOf(config->hStream);
  RETURN_IF_FAULT(cuLaunchKernelEx, stream.device());
  const Function& function = *reinterpret_cast<Function*>(handle);
  Module& module = *function.module;
  ++module.grids;
  const std::string argument(static_cast<const char*>(arguments[0]),
                             function.argument_bytes);
  stream.Enqueue([&module, argument, device = stream.device(),
                  starts = PointedToBy(argument.data(), argument.size())] {
    ExpectLive(starts, "before it ran");
    std::vector<uint64_t> all = starts;
    if (argument.size() == sizeof(GroupedArguments)) {
      all = PointedToByGroup(argument.data());
      all.insert(all.end(), starts.begin(), starts.end());
    }
    do {
      std::this_thread::sleep_for(kKernelTime);
    } while (Hangs(device));
    ExpectLive(all, "while it ran");
    --module.grids;
  });
  return CUDA_SUCCESS;
}

}  // extern "C"
}  // namespace gemmd::threaded_driver
