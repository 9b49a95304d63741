#include "service/gpu/workspace.h"

#include "jit/base/status.h"
#include "jit/plan/launch_arithmetic.h"
#include "service/gpu/status.h"

namespace gemmd::gpu {
namespace {

// True when it had to grow.
absl::StatusOr<bool> Grow(int64_t bytes, const MemoryPool& memory,
                          const std::shared_ptr<Stream>& stream,
                          DeviceBuffer& buffer) {
  if (bytes <= buffer.bytes()) return false;
  ASSIGN_OR_RETURN(buffer, memory.Allocate(stream, bytes));
  return true;
}

}  // namespace

absl::Status Workspace::Reserve(const jit::Plan& plan, const MemoryPool& memory,
                                const std::shared_ptr<Stream>& stream) {
  RETURN_IF_ERROR(
      Grow(plan.partials_bytes, memory, stream, partials_).status());
  RETURN_IF_ERROR(
      Grow(plan.line_bits_bytes, memory, stream, line_bits_).status());
  ASSIGN_OR_RETURN(const bool grown, Grow(jit::PassFlagsBytes(plan), memory,
                                          stream, pass_flags_));
  if (!grown) return absl::OkStatus();
  RETURN_IF_CUDA_ERROR(
      stream->driver(),
      cuMemsetD8Async(pass_flags_.get(), 0,
                      static_cast<size_t>(pass_flags_.bytes()), stream->get()));
  return absl::OkStatus();
}

void Workspace::AddTo(LaunchMemory& memory) const {
  memory.partials = partials_.get();
  memory.pass_flags = pass_flags_.get();
  memory.line_bits = line_bits_.get();
}

}  // namespace gemmd::gpu
