#include "service/gpu/device_copy.h"

#include <algorithm>

#include "service/gpu/status.h"

namespace gemmd::gpu {
namespace {

// Largest pitch of a copy in two dimensions (CU_DEVICE_ATTRIBUTE_MAX_PITCH).
constexpr int64_t kMaxCopyPitchBytes = (int64_t{1} << 31) - 1;

// All lines but the last: of two dimensions the driver may want whole lines.
CUDA_MEMCPY2D Lines(DeviceLines from, DeviceLines to, int64_t width_bytes,
                    int64_t lines) {
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from.at;
  copy.srcPitch = static_cast<size_t>(from.pitch_bytes);
  copy.dstDevice = to.at;
  copy.dstPitch = static_cast<size_t>(to.pitch_bytes);
  copy.WidthInBytes = static_cast<size_t>(width_bytes);
  copy.Height = static_cast<size_t>(lines - 1);
  return copy;
}

}  // namespace

absl::Status CopyWithin(const Stream& stream, DeviceLines from, DeviceLines to,
                        int64_t width_bytes, int64_t lines) {
  const DriverTable& driver = stream.driver();
  const bool is_run =
      from.pitch_bytes == width_bytes && to.pitch_bytes == width_bytes;
  if (is_run) {
    width_bytes *= lines;
    lines = 1;
  }
  int64_t line = 0;
  if (lines > 1 &&
      std::max(from.pitch_bytes, to.pitch_bytes) <= kMaxCopyPitchBytes) {
    const CUDA_MEMCPY2D copy = Lines(from, to, width_bytes, lines);
    const CUresult result = driver.cuMemcpy2DAsync(&copy, stream.get());
    // cuda.h: within a device it "may fail for pitches not computed by
    // cuMemAllocPitch".
    if (result != CUDA_ERROR_INVALID_VALUE) {
      RETURN_IF_ERROR(ToStatus(driver, result, "cuMemcpy2DAsync"));
      line = lines - 1;
    }
  }
  for (; line < lines; ++line) {
    RETURN_IF_CUDA_ERROR(
        driver, cuMemcpyDtoDAsync(
                    to.at + static_cast<CUdeviceptr>(line * to.pitch_bytes),
                    from.at + static_cast<CUdeviceptr>(line * from.pitch_bytes),
                    static_cast<size_t>(width_bytes), stream.get()));
  }
  return absl::OkStatus();
}

}  // namespace gemmd::gpu
