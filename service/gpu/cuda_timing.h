// Times kernels on a GPU: launches are captured into a graph for each
// contender, which is replayed twice without a pause; the second time counts.
// So neither the host nor clocks that have yet to rise are in the figures.
#ifndef GEMMD_SERVICE_GPU_CUDA_TIMING_H_
#define GEMMD_SERVICE_GPU_CUDA_TIMING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "jit/problem/problem.h"
#include "service/device/timing.h"
#include "service/gpu/context.h"
#include "service/gpu/event.h"
#include "service/gpu/graph.h"
#include "service/gpu/scratch.h"

namespace gemmd::gpu {

class CudaTiming final : public device::Timing {
 public:
  // All outlive the timing, as do the kernels of the contenders.
  struct Device {
    const Context& context;
    const MemoryPool& memory;
    PinnedPool& pinned;
    int64_t cache_bytes;  // Of the L2 cache.
  };

  static device::TimingMemory MemoryOf(
      const Device& device, const jit::Problem& problem,
      absl::Span<const device::Contender> contenders);
  static absl::StatusOr<std::unique_ptr<CudaTiming>> Create(
      const Device& device, const jit::Problem& problem,
      absl::Span<const device::Contender> contenders, int64_t memory_bytes);
  ~CudaTiming() override;

  absl::StatusOr<double> Sample(size_t i) override;
  absl::StatusOr<bool> GiveSameBits(size_t i, size_t j) override;

 private:
  // What is replayed to sample a contender.
  struct Replay {
    int launches = 0;  // 0: not captured yet.
    bool warms_up = false;
    Graph graph;
  };

  CudaTiming(const Device& device, std::shared_ptr<Stream> stream,
             Scratch scratch, Event begin, Event end,
             const jit::Problem& problem,
             absl::Span<const device::Contender> contenders);

  absl::StatusOr<Replay> Capture(const device::Contender& contender) const;
  absl::StatusOr<PreparedLaunch> LaunchOf(const device::Contender& contender,
                                          int64_t copy) const;
  // Bytes of D, the same for equal results.
  absl::StatusOr<std::string> ResultOf(const device::Contender& contender);
  // Milliseconds on the device.
  absl::StatusOr<double> Time(const std::function<absl::Status()>& work) const;

  const Context& context_;
  PinnedPool& pinned_;
  const std::shared_ptr<Stream> stream_;
  const Scratch scratch_;
  const Event begin_;
  const Event end_;
  const jit::Problem problem_;
  const std::vector<device::Contender> contenders_;
  std::vector<Replay> replays_;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_CUDA_TIMING_H_
