// Device matrix -> page-locked host memory, changing the pitch on the way.
#ifndef GEMMD_SERVICE_GPU_DOWNLOAD_H_
#define GEMMD_SERVICE_GPU_DOWNLOAD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "jit/problem/layout.h"
#include "service/device/device.h"
#include "service/gpu/pinned_memory.h"
#include "service/gpu/stream.h"

namespace gemmd::gpu {

// Waits for all work of `stream`, then holds the lines of the matrix at
// `from`, `pitch_bytes` apart, with zeros between them and nothing after the
// last. `layout` is not empty.
absl::StatusOr<std::unique_ptr<device::HostBuffer>> Download(
    const Stream& stream, PinnedPool& pool, CUdeviceptr from,
    const jit::MatrixLayout& layout, int64_t pitch_bytes);

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_DOWNLOAD_H_
