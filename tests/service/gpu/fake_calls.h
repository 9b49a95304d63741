// What functions of the fake driver have in common; they work on the running
// FakeDriver. For the files that install them alone.
#ifndef GEMMD_TESTS_SERVICE_GPU_FAKE_CALLS_H_
#define GEMMD_TESTS_SERVICE_GPU_FAKE_CALLS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {

// Memory of devices and of the host, and what fills and copies it.
void InstallCopies(DriverTable& table);
// Functions of modules, their launches, and tensor maps.
void InstallLaunches(DriverTable& table);

inline FakeDriver& Fake() { return *FakeDriver::current; }

template <typename Handle>
uintptr_t Id(Handle handle) {
  return reinterpret_cast<uintptr_t>(handle);
}

inline char* Host(CUdeviceptr pointer) {
  return reinterpret_cast<char*>(pointer);
}

// Notes the call, and returns what a test has it fail with, if anything.
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

// Name of a call for messages: "cuMemFreeAsync on stream 3".
inline std::string On(const char* function, CUstream stream) {
  return std::string(function) + " on stream " + std::to_string(Id(stream));
}

inline void Enqueue(CUstream stream, std::function<void()> work) {
  const auto captured = Fake().captured.find(Id(stream));
  if (captured != Fake().captured.end()) {
    captured->second.push_back(std::move(work));
  } else {
    Fake().timeline.Enqueue(Id(stream), std::move(work));
  }
}

// A tensor map is this and its number, so that maps are found in arguments.
inline constexpr uint64_t kMapTag = 0x7e50'a11a'0000'0000;
inline constexpr uint64_t kTagBits = 0xffff'ffff'0000'0000;

}  // namespace gemmd::gpu

#endif  // GEMMD_TESTS_SERVICE_GPU_FAKE_CALLS_H_
