#include "service/gpu/download.h"

#include <cstring>
#include <utility>

#include "service/gpu/status.h"

namespace gemmd::gpu {
namespace {

// Largest pitch of a copy in two dimensions (CU_DEVICE_ATTRIBUTE_MAX_PITCH).
constexpr int64_t kMaxCopyPitchBytes = (int64_t{1} << 31) - 1;

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

absl::Status CopyRun(const Stream& stream, CUdeviceptr from, char* to,
                     int64_t bytes) {
  RETURN_IF_CUDA_ERROR(
      stream.driver(),
      cuMemcpyDtoHAsync(to, from, static_cast<size_t>(bytes), stream.get()));
  return absl::OkStatus();
}

absl::Status CopyLines(const Stream& stream, CUdeviceptr from,
                       const jit::MatrixLayout& layout, char* to,
                       int64_t to_pitch_bytes) {
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.srcPitch = static_cast<size_t>(layout.pitch_bytes());
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = to;
  copy.dstPitch = static_cast<size_t>(to_pitch_bytes);
  copy.WidthInBytes = static_cast<size_t>(layout.width_bytes());
  copy.Height = static_cast<size_t>(layout.lines());
  RETURN_IF_CUDA_ERROR(stream.driver(), cuMemcpy2DAsync(&copy, stream.get()));
  return absl::OkStatus();
}

absl::Status CopyToHost(const Stream& stream, CUdeviceptr from,
                        const jit::MatrixLayout& layout, char* to,
                        int64_t pitch_bytes) {
  const int64_t width = layout.width_bytes();
  const int64_t from_pitch = layout.pitch_bytes();
  if (layout.lines() == 1 || (pitch_bytes == width && from_pitch == width)) {
    return CopyRun(stream, from, to, layout.lines() * width);
  }
  if (pitch_bytes <= kMaxCopyPitchBytes && from_pitch <= kMaxCopyPitchBytes) {
    return CopyLines(stream, from, layout, to, pitch_bytes);
  }
  for (int64_t line = 0; line < layout.lines(); ++line) {
    RETURN_IF_ERROR(CopyRun(stream,
                            from + static_cast<CUdeviceptr>(line * from_pitch),
                            to + line * pitch_bytes, width));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<device::HostBuffer>> Download(
    const Stream& stream, PinnedPool& pool, CUdeviceptr from,
    const jit::MatrixLayout& layout, int64_t pitch_bytes) {
  RETURN_IF_ERROR(stream.context().MakeCurrent());
  const int64_t width = layout.width_bytes();
  const int64_t lines = layout.lines();
  // A copy in two dimensions may want whole lines, the last one too.
  ASSIGN_OR_RETURN(PinnedBuffer buffer,
                   pool.Allocate(lines == 1 ? width : lines * pitch_bytes));
  char* to = buffer.bytes().data();
  const int64_t size = (lines - 1) * pitch_bytes + width;

  const absl::Status enqueued =
      CopyToHost(stream, from, layout, to, pitch_bytes);
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
