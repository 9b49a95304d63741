// A few page-locked chunks through which a lane uploads: one is filled by the
// host while others are on their way to the device. Used by one thread at a
// time, which copies alone: four more that helped took 0.4 of the time, and made
// products that come through a socket of the same host later, streams by half
// (16 cores, an H200).
#ifndef GEMMD_SERVICE_GPU_STAGING_RING_H_
#define GEMMD_SERVICE_GPU_STAGING_RING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "service/gpu/device_image.h"
#include "service/gpu/event.h"
#include "service/gpu/pinned_memory.h"

namespace gemmd::gpu {

class StagingRing {
 public:
  struct Options {
    int chunks = 2;
    int64_t chunk_bytes = int64_t{4} << 20;
  };

  static absl::StatusOr<StagingRing> Create(const Context* context,
                                            PinnedPool& pool, Options options);
  StagingRing(StagingRing&&) = default;

  // Enqueues the copy of all that `image` has left to device memory at `to`.
  // Returns when the pieces behind `image` have been read.
  absl::Status Upload(DeviceImage& image, CUdeviceptr to, const Stream& stream);

 private:
  struct Chunk {
    PinnedBuffer memory;
    Event sent;  // After it, the host may write `memory` again.
  };

  StagingRing() = default;

  std::vector<Chunk> chunks_;
  size_t next_ = 0;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_STAGING_RING_H_
