// Device memory that launches on one stream use between them, one after the
// other: partial products, sums that are passed on, counted bits. Grows to what
// the largest needs. Thread-compatible.
#ifndef GEMMD_SERVICE_GPU_WORKSPACE_H_
#define GEMMD_SERVICE_GPU_WORKSPACE_H_

#include <memory>

#include "absl/status/status.h"
#include "jit/plan/plan.h"
#include "service/gpu/device_memory.h"
#include "service/gpu/launch.h"

namespace gemmd::gpu {

class Workspace {
 public:
  // Makes it large enough for `plan`. The stream's context is current.
  absl::Status Reserve(const jit::Plan& plan, const MemoryPool& memory,
                       const std::shared_ptr<Stream>& stream);
  // Of the plan that it was reserved for.
  void AddTo(LaunchMemory& memory) const;

 private:
  DeviceBuffer partials_;
  DeviceBuffer pass_flags_;  // All zero between launches.
  DeviceBuffer line_bits_;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_WORKSPACE_H_
