// Times kernels that run the same problem, for a tuner: on operands of its own,
// with random elements, that lie in device memory and not in a cache.
//
// Ownership: a Timing outlives neither its device nor the kernels that it was
// made with. Used by one thread at a time, any.
#ifndef GEMMD_SERVICE_DEVICE_TIMING_H_
#define GEMMD_SERVICE_DEVICE_TIMING_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "jit/plan/plan.h"

namespace gemmd::device {

class Kernel;

// A plan and its kernel, loaded on the device.
struct Contender {
  jit::Plan plan;
  const Kernel* kernel = nullptr;
};

// Of the operands and workspaces that a timing needs.
struct TimingMemory {
  int64_t least_bytes = 0;
  int64_t enough_bytes = 0;  // So that no cache holds inputs from last time.
};

class Timing {
 public:
  virtual ~Timing() = default;

  // Microseconds of one product with contender `i`: the mean of some that run
  // one behind the other, for a millisecond or two, or one of long ones. Waits
  // for them. The first call of each contender may take longer than others.
  virtual absl::StatusOr<double> Sample(size_t i) = 0;

  // Whether both contenders give the same D, bit for bit: of a large one, in
  // its first bytes.
  virtual absl::StatusOr<bool> GiveSameBits(size_t i, size_t j) = 0;
};

}  // namespace gemmd::device

#endif  // GEMMD_SERVICE_DEVICE_TIMING_H_
