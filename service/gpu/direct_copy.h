// Copies between device memory and page-locked host memory that change the
// pitch on the way, by the copy engine alone.
#ifndef GEMMD_SERVICE_GPU_DIRECT_COPY_H_
#define GEMMD_SERVICE_GPU_DIRECT_COPY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "jit/problem/layout.h"
#include "service/gpu/stream.h"

namespace gemmd::gpu {

// Lines of a matrix in page-locked memory.
template <typename Byte>
struct HostLines {
  Byte* bytes = nullptr;
  int64_t pitch_bytes = 0;
  // The last line has its padding, too, which a copy may read or write.
  bool padded = false;
};

// Enqueue the copy of all lines of a matrix of `layout`, which is not empty, in
// device memory at `from` or `to`. Padding is not copied.
absl::Status CopyToHost(const Stream& stream, CUdeviceptr from,
                        const jit::MatrixLayout& layout,
                        const HostLines<char>& to);
absl::Status CopyToDevice(const Stream& stream,
                          const HostLines<const char>& from,
                          const jit::MatrixLayout& layout, CUdeviceptr to);

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_DIRECT_COPY_H_
