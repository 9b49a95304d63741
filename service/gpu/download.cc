#include "service/gpu/download.h"

#include <cstring>
#include <utility>

#include "service/gpu/direct_copy.h"
#include "service/gpu/status.h"

namespace gemmd::gpu {
namespace {

class PinnedHostBuffer final : public device::HostBuffer {
 public:
  PinnedHostBuffer(PinnedBuffer buffer, size_t size)
      : buffer_(std::move(buffer)), size_(size) {}
  absl::Span<char> bytes() override {
    return buffer_.bytes().subspan(0, size_);
  }

 private:
  PinnedBuffer buffer_;
  const size_t size_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<device::HostBuffer>> Download(
    const Stream& stream, PinnedPool& pool, CUdeviceptr from,
    const jit::MatrixLayout& layout, int64_t pitch_bytes) {
  RETURN_IF_ERROR(stream.context().MakeCurrent());
  const int64_t width = layout.width_bytes();
  const int64_t lines = layout.lines();
  ASSIGN_OR_RETURN(PinnedBuffer buffer,
                   pool.Allocate(lines == 1 ? width : lines * pitch_bytes));
  char* to = buffer.bytes().data();
  const int64_t size = (lines - 1) * pitch_bytes + width;

  const absl::Status enqueued =
      CopyToHost(stream, from, layout,
                 {.bytes = to, .pitch_bytes = pitch_bytes, .padded = true});
  // The pool's memory is not clean: what an earlier user left between the
  // lines must not leave the daemon. The copies write only the lines.
  if (enqueued.ok() && pitch_bytes > width) {
    for (int64_t line = 0; line + 1 < lines; ++line) {
      std::memset(to + line * pitch_bytes + width, 0,
                  static_cast<size_t>(pitch_bytes - width));
    }
  }
  // Before any return: a copy under way may not find its buffer reused.
  const absl::Status done = stream.Synchronize();
  RETURN_IF_ERROR(enqueued);
  RETURN_IF_ERROR(done);
  return std::make_unique<PinnedHostBuffer>(std::move(buffer),
                                            static_cast<size_t>(size));
}

}  // namespace gemmd::gpu
