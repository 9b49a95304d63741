#include "service/gpu/staging_ring.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "service/gpu/status.h"

namespace gemmd::gpu {

absl::StatusOr<StagingRing> StagingRing::Create(const Context* context,
                                                PinnedPool& pool,
                                                Options options) {
  StagingRing ring(std::move(options));
  for (int i = 0; i < ring.options_.chunks; ++i) {
    ASSIGN_OR_RETURN(PinnedBuffer memory,
                     pool.Allocate(ring.options_.chunk_bytes));
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
    Fill(chunk.memory.bytes().subspan(0, bytes), image);
    RETURN_IF_CUDA_ERROR(stream.driver(),
                         cuMemcpyHtoDAsync(to, chunk.memory.bytes().data(),
                                           bytes, stream.get()));
    RETURN_IF_ERROR(chunk.sent.Record(stream));
    to += bytes;
  }
  return absl::OkStatus();
}

void StagingRing::Fill(absl::Span<char> to, DeviceImage& image) const {
  const auto bytes = static_cast<int64_t>(to.size());
  if (options_.helpers == nullptr || bytes < options_.least_shared_bytes) {
    return image.Read(to);
  }
  std::atomic<int64_t> next = 0;  // The first byte that is nobody's.
  options_.helpers->Share([&] {
    DeviceImage rest = image;
    int64_t at = 0;  // Of `rest`.
    while (true) {
      const int64_t begin = next.fetch_add(options_.part_bytes);
      if (begin >= bytes) return;
      rest.Skip(begin - at);
      at = std::min(begin + options_.part_bytes, bytes);
      rest.Read(to.subspan(static_cast<size_t>(begin),
                           static_cast<size_t>(at - begin)));
    }
  });
  image.Skip(bytes);
}

}  // namespace gemmd::gpu
