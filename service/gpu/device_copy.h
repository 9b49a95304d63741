// Copies within a GPU's memory that change the distance of lines on the way.
#ifndef GEMMD_SERVICE_GPU_DEVICE_COPY_H_
#define GEMMD_SERVICE_GPU_DEVICE_COPY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "service/gpu/stream.h"

namespace gemmd::gpu {

// Where lines lie, one `pitch_bytes` behind the other. Nothing behind the last
// one is touched, nor what lies between them.
struct DeviceLines {
  CUdeviceptr at = 0;
  int64_t pitch_bytes = 0;
};

// Enqueues the copy of `lines` lines, at least one, of `width_bytes`. The
// stream's context is current.
absl::Status CopyWithin(const Stream& stream, DeviceLines from, DeviceLines to,
                        int64_t width_bytes, int64_t lines);

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_DEVICE_COPY_H_
