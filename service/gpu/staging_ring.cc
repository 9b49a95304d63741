#include "service/gpu/staging_ring.h"

#include <algorithm>

#include "service/gpu/status.h"

namespace gemmd::gpu {

absl::StatusOr<StagingRing> StagingRing::Create(const Context* context,
                                                PinnedPool& pool,
                                                Options options) {
  StagingRing ring;
  for (int i = 0; i < options.chunks; ++i) {
    ASSIGN_OR_RETURN(PinnedBuffer memory, pool.Allocate(options.chunk_bytes));
    ASSIGN_OR_RETURN(Event sent, Event::Create(context, Event::Timing::kOff));
    ring.chunks_.push_back({std::move(memory), std::move(sent)});
  }
  return ring;
}

absl::Status StagingRing::Upload(DeviceImage& image, CUdeviceptr to,
                                 const Stream& stream) {
  while (image.remaining_bytes() > 0) {
    Chunk& chunk = chunks_[next_];
    next_ = (next_ + 1) % chunks_.size();
    RETURN_IF_ERROR(chunk.sent.Synchronize());
    const size_t bytes = std::min(chunk.memory.bytes().size(),
                                  static_cast<size_t>(image.remaining_bytes()));
    image.Read(chunk.memory.bytes().subspan(0, bytes));
    RETURN_IF_CUDA_ERROR(stream.driver(),
                         cuMemcpyHtoDAsync(to, chunk.memory.bytes().data(),
                                           bytes, stream.get()));
    RETURN_IF_ERROR(chunk.sent.Record(stream));
    to += bytes;
  }
  return absl::OkStatus();
}

}  // namespace gemmd::gpu
