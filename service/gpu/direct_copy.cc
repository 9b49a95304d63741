#include "service/gpu/direct_copy.h"

#include "service/gpu/status.h"

namespace gemmd::gpu {
namespace {

// Largest pitch of a copy in two dimensions (CU_DEVICE_ATTRIBUTE_MAX_PITCH).
constexpr int64_t kMaxCopyPitchBytes = (int64_t{1} << 31) - 1;

absl::Status CopyRun(const Stream& stream, CUdeviceptr from, char* to,
                     int64_t bytes) {
  RETURN_IF_CUDA_ERROR(
      stream.driver(),
      cuMemcpyDtoHAsync(to, from, static_cast<size_t>(bytes), stream.get()));
  return absl::OkStatus();
}

absl::Status CopyRun(const Stream& stream, CUdeviceptr to, const char* from,
                     int64_t bytes) {
  RETURN_IF_CUDA_ERROR(
      stream.driver(),
      cuMemcpyHtoDAsync(to, from, static_cast<size_t>(bytes), stream.get()));
  return absl::OkStatus();
}

void SetHost(char* to, int64_t pitch_bytes, CUDA_MEMCPY2D& copy) {
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = to;
  copy.dstPitch = static_cast<size_t>(pitch_bytes);
}

void SetHost(const char* from, int64_t pitch_bytes, CUDA_MEMCPY2D& copy) {
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = from;
  copy.srcPitch = static_cast<size_t>(pitch_bytes);
}

void SetDevice(CUdeviceptr at, int64_t pitch_bytes, CUDA_MEMCPY2D& copy) {
  if (copy.srcMemoryType == CU_MEMORYTYPE_HOST) {
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = at;
    copy.dstPitch = static_cast<size_t>(pitch_bytes);
  } else {
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = at;
    copy.srcPitch = static_cast<size_t>(pitch_bytes);
  }
}

// To the host or, of `const char`, from it.
template <typename Byte>
absl::Status Copy(const Stream& stream, CUdeviceptr device,
                  const jit::MatrixLayout& layout,
                  const HostLines<Byte>& host) {
  const int64_t width = layout.width_bytes();
  const int64_t pitch = layout.pitch_bytes();
  const int64_t lines = layout.lines();
  if (lines == 1 || (host.pitch_bytes == width && pitch == width)) {
    return CopyRun(stream, device, host.bytes, lines * width);
  }
  int64_t line = 0;
  if (host.pitch_bytes <= kMaxCopyPitchBytes && pitch <= kMaxCopyPitchBytes) {
    // In two dimensions whole lines may be wanted, the last one too.
    line = host.padded || host.pitch_bytes == width ? lines : lines - 1;
    CUDA_MEMCPY2D copy = {};
    SetHost(host.bytes, host.pitch_bytes, copy);
    SetDevice(device, pitch, copy);
    copy.WidthInBytes = static_cast<size_t>(width);
    copy.Height = static_cast<size_t>(line);
    RETURN_IF_CUDA_ERROR(stream.driver(), cuMemcpy2DAsync(&copy, stream.get()));
  }
  for (; line < lines; ++line) {
    RETURN_IF_ERROR(CopyRun(stream,
                            device + static_cast<CUdeviceptr>(line * pitch),
                            host.bytes + line * host.pitch_bytes, width));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CopyToHost(const Stream& stream, CUdeviceptr from,
                        const jit::MatrixLayout& layout,
                        const HostLines<char>& to) {
  return Copy(stream, from, layout, to);
}

absl::Status CopyToDevice(const Stream& stream,
                          const HostLines<const char>& from,
                          const jit::MatrixLayout& layout, CUdeviceptr to) {
  return Copy(stream, to, layout, from);
}

}  // namespace gemmd::gpu
