// A few page-locked chunks through which a lane uploads: one is filled by the
// host, by several of its cores where they are idle, while others are on their
// way to the device. Used by one thread at a time.
#ifndef GEMMD_SERVICE_GPU_STAGING_RING_H_
#define GEMMD_SERVICE_GPU_STAGING_RING_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/gpu/copy_threads.h"
#include "service/gpu/device_image.h"
#include "service/gpu/event.h"
#include "service/gpu/pinned_memory.h"

namespace gemmd::gpu {

class StagingRing {
 public:
  struct Options {
    int chunks = 2;
    int64_t chunk_bytes = int64_t{4} << 20;
    // Who helps to fill them; null: nobody does. Less is not worth waking them,
    // and each takes a part at a time: a moment's copy, which others wait for.
    std::shared_ptr<CopyThreads> helpers = nullptr;
    int64_t least_shared_bytes = int64_t{1} << 20;
    int64_t part_bytes = int64_t{64} << 10;
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

  explicit StagingRing(Options options) : options_(std::move(options)) {}

  // As image.Read(to).
  void Fill(absl::Span<char> to, DeviceImage& image) const;

  Options options_;
  std::vector<Chunk> chunks_;
  size_t next_ = 0;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_STAGING_RING_H_
