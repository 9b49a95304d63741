// A CUDA driver for tests. Device memory is host memory; work runs in the order
// of its stream and of events, as late as somebody waits for it; every call is
// noted with its stream and object. Misuse fails the test and says what it is:
// memory used before or after its life, a call without a context, more shared
// memory than a function may have. One at a time per process, because the
// driver's functions know no context but this; used by one thread at a time.
#ifndef GEMMD_TESTS_SERVICE_GPU_FAKE_DRIVER_H_
#define GEMMD_TESTS_SERVICE_GPU_FAKE_DRIVER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "service/gpu/driver_table.h"
#include "tests/service/gpu/fake_exports.h"
#include "tests/service/gpu/fake_memory.h"
#include "tests/service/gpu/fake_timeline.h"

namespace gemmd::gpu {

class FakeDriver {
 public:
  FakeDriver();
  ~FakeDriver();

  std::shared_ptr<const DriverTable> table() const { return table_; }

  // Makes the named function return `result` `times` times, `after` so many
  // calls that succeed.
  void Fail(const std::string& function, CUresult result, int times = 1,
            int after = 0);

  // Functions in the order of their calls, queries left out.
  struct Call {
    std::string function;
    uintptr_t stream = 0;  // Handle; 0 where none is given.
    uintptr_t object = 0;  // Event, function or device memory; 0 without.

    friend bool operator==(const Call&, const Call&) = default;
  };
  const std::vector<Call>& calls() const { return calls_; }
  std::vector<std::string> names() const;
  int CountOf(const std::string& function) const;
  void Forget() { calls_.clear(); }

  // Handles and allocations not yet released.
  size_t live() const;
  // Lets the device do all that it was given.
  void Finish() { timeline.RunAll(); }

  // What tests look at.
  struct EncodedMap {
    CUtensorMapDataType type;
    uint64_t pointer;
    uint64_t width, lines, matrices, stride_bytes, matrix_bytes;
    uint32_t box_width, box_lines;
    CUtensorMapSwizzle swizzle;
  };
  std::vector<EncodedMap> maps;
  // The one whose encoding starts at `map`. Encodings are numbers.
  const EncodedMap& MapOf(const void* map) const;

  struct Launch {
    CUfunction function;
    std::string symbol;
    CUlaunchConfig config;  // Without its attributes.
    bool overlaps;          // Programmatic stream serialisation allowed.
    unsigned cluster;       // CTAs of a cluster.
    std::string bytes;      // Of the one argument, as long as argument_bytes.

    template <typename T>
    T argument() const {
      T value;
      std::memcpy(&value, bytes.data(), std::min(sizeof(T), bytes.size()));
      return value;
    }
  };
  std::vector<Launch> launches;  // In the order of their calls.
  // What kernels do, when the device comes to them. May be null.
  std::function<void(const Launch&)> run_kernel;

  // A function as a module would give it, with the shared memory that a launch
  // may have without asking.
  CUfunction NewFunction(const std::string& symbol);

  std::set<std::string> symbols = {"gemmd_kernel"};  // In every module.
  // By symbol; a fake can not read it from an image.
  std::map<std::string, size_t> argument_bytes;
  int devices = 1;
  int driver_version = 13000;
  std::map<CUdevice_attribute, int> attributes;
  // Of single devices, where they differ.
  std::map<std::pair<CUdevice, CUdevice_attribute>, int> device_attributes;
  int static_shared_bytes = 0;    // Of every function.
  unsigned largest_cluster = 16;  // That the device has room for.
  bool memory_is_broken = false;  // Writes to the device are lost.
  bool downloads_are_lost = false;
  size_t free_bytes = size_t{1} << 30;
  uint64_t pool_reserved = 0;
  uint64_t pool_used = 0;
  uint64_t pool_threshold = 0;  // Of bytes that pools keep when idle.

  static constexpr CUdevice kFarDevice = 7;  // It has no link to others.
  std::vector<CUdevice> admitted;            // To memory of pools.
  struct PeerCopy {
    CUcontext to, from;
  };
  std::vector<PeerCopy> peer_copies;  // Their contexts, in their order.

  // Microseconds on the device, which kernels let pass. Events note them.
  double clock_us = 0;
  std::map<CUevent, double> event_us;
  // Streams that are captured, with what was enqueued on them since.
  using Works = std::vector<std::function<void()>>;
  std::map<uintptr_t, Works> captured;
  std::map<uintptr_t, Works> graphs;  // Also those that can be launched.

  // The running fake. Functions of the table use it.
  static FakeDriver* current;
  // Notes the call; what the function is to return.
  CUresult Enter(const char* function, CUstream stream = nullptr,
                 uintptr_t object = 0);
  template <typename Handle>
  Handle NewHandle() {
    handles_.insert(++next_);
    return reinterpret_cast<Handle>(next_);
  }
  template <typename Handle>
  void DropHandle(Handle handle) {
    handles_.erase(reinterpret_cast<uintptr_t>(handle));
  }
  struct Function {
    std::string symbol;
    int dynamic_limit_bytes = 48 << 10;
    bool has_large_clusters = false;  // Of more than 8 CTAs.
  };
  std::map<CUfunction, Function> functions;
  // Each symbol of a module has one handle.
  std::map<std::pair<CUmodule, std::string>, CUfunction> module_functions;
  std::map<CUevent, FakeTimeline::Point> events;  // Where last recorded.
  std::set<CUevent> timed_events;                 // Made for it.
  FakeTimeline timeline;
  FakeMemory memory;
  FakeExports exports;

 private:
  std::shared_ptr<DriverTable> table_;
  std::vector<Call> calls_;
  struct Failure {
    CUresult result;
    int times;
    int after;
  };
  std::map<std::string, Failure> failures_;
  std::set<uintptr_t> handles_;
  uintptr_t next_ = 0;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_TESTS_SERVICE_GPU_FAKE_DRIVER_H_
