// A CUDA driver for tests: device memory is host memory, streams run at once,
// and every call is counted. One at a time per process, because the driver's
// functions know no context but this.
#ifndef GEMMD_TESTS_SERVICE_GPU_FAKE_DRIVER_H_
#define GEMMD_TESTS_SERVICE_GPU_FAKE_DRIVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "service/gpu/driver_table.h"

namespace gemmd::gpu {

class FakeDriver {
 public:
  FakeDriver();
  ~FakeDriver();

  std::shared_ptr<const DriverTable> table() const { return table_; }

  // Makes the named function return `result` `times` times.
  void Fail(const std::string& function, CUresult result, int times = 1);

  // Names of functions in the order of their calls, queries left out.
  const std::vector<std::string>& calls() const { return calls_; }
  int CountOf(const std::string& function) const;
  void Forget() { calls_.clear(); }

  // Handles and allocations not yet released.
  size_t live() const;

  // What tests look at.
  struct EncodedMap {
    CUtensorMapDataType type;
    uint64_t pointer;
    uint64_t width, lines, stride_bytes;
    uint32_t box_width, box_lines;
    CUtensorMapSwizzle swizzle;
    uint64_t number;  // The first 8 bytes of the map, unique.
  };
  std::vector<EncodedMap> maps;
  struct Launch {
    CUfunction function;
    CUlaunchConfig config;
    bool overlaps;         // Programmatic stream serialisation allowed.
    const void* argument;  // Valid during on_launch only.
  };
  std::vector<Launch> launches;
  void (*on_launch)(const Launch&) = nullptr;

  std::set<std::string> symbols = {"gemmd_kernel"};  // In every module.
  std::map<CUdevice_attribute, int> attributes;
  bool memory_is_broken = false;  // Writes to the device are lost.
  size_t free_bytes = size_t{1} << 30;
  uint64_t pool_reserved = 0;
  uint64_t pool_used = 0;

  // The running fake. Functions of the table use it.
  static FakeDriver* current;
  // Notes the call; what the function is to return.
  CUresult Enter(const char* function);
  template <typename Handle>
  Handle NewHandle() {
    handles_.insert(++next_);
    return reinterpret_cast<Handle>(next_);
  }
  template <typename Handle>
  void DropHandle(Handle handle) {
    handles_.erase(reinterpret_cast<uintptr_t>(handle));
  }
  std::map<void*, std::unique_ptr<char[]>> memory;  // Device and pinned.

 private:
  std::shared_ptr<DriverTable> table_;
  std::vector<std::string> calls_;
  struct Failure {
    CUresult result;
    int times;
  };
  std::map<std::string, Failure> failures_;
  std::set<uintptr_t> handles_;
  uintptr_t next_ = 0;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_TESTS_SERVICE_GPU_FAKE_DRIVER_H_
