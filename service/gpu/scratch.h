// Operands and workspaces of a timing, in one block of device memory: several
// copies of what products read and write, so that no cache holds the inputs of
// one from the last time, and once what is small or not read.
#ifndef GEMMD_SERVICE_GPU_SCRATCH_H_
#define GEMMD_SERVICE_GPU_SCRATCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "jit/problem/problem.h"
#include "service/device/timing.h"
#include "service/gpu/device_memory.h"
#include "service/gpu/launch.h"
#include "service/gpu/pinned_memory.h"

namespace gemmd::gpu {

// Where everything lies. Pure function of its arguments.
struct ScratchLayout {
  struct Region {
    int64_t offset = 0;
    int64_t bytes = 0;  // 0: not there.
    jit::DataType type = jit::DataType::kF32;
    bool filled = false;  // With random elements.
  };
  // Of each copy, from its start.
  Region a, b, metadata, c, d, auxiliary;
  int64_t copy_bytes = 0;
  int64_t input_bytes = 0;  // Of A and B in it.
  // Behind the copies, from their end.
  Region bias, a_scale, b_scale, d_scale, amax, partials, line_bits,
      pass_flags;  // Zero at first.
  int64_t shared_bytes = 0;

  int64_t Bytes(int64_t copies) const {
    return copies * copy_bytes + shared_bytes;
  }
  // Copies that put twice the cache between two uses of one.
  int64_t CopiesBeyond(int64_t cache_bytes) const;
};

// Of operands in the forms that the first contender reads, which are those of
// all, and workspaces that are large enough for each.
ScratchLayout ScratchLayoutOf(const jit::Problem& problem,
                              absl::Span<const device::Contender> contenders);

class Scratch {
 public:
  // Filled when the work of `stream` is done. At least one copy.
  static absl::StatusOr<Scratch> Create(const ScratchLayout& layout,
                                        int64_t copies, const MemoryPool& pool,
                                        PinnedPool& pinned,
                                        const std::shared_ptr<Stream>& stream);

  int64_t copies() const { return copies_; }
  LaunchMemory operator[](int64_t copy) const;

 private:
  Scratch(const ScratchLayout& layout, int64_t copies, DeviceBuffer memory)
      : layout_(layout), copies_(copies), memory_(std::move(memory)) {}

  absl::Status Fill(PinnedPool& pinned);
  absl::Status ClearFlags();
  absl::Status FillMetadata();
  absl::Status FillType(jit::DataType type, absl::Span<char> staging);
  // Regions of `type` that are filled, by their address.
  struct Target {
    CUdeviceptr to;
    int64_t bytes;
  };
  std::vector<Target> TargetsOf(jit::DataType type) const;

  ScratchLayout layout_;
  int64_t copies_;
  DeviceBuffer memory_;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_SCRATCH_H_
