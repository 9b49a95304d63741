// The bytes of a matrix as they lie in device memory, read in order from the
// pieces in which a transport delivered them. Used to fill staging memory:
// the pitch changes on the way, so that the copy to the device is one run.
// Thread-compatible; the pieces outlive it.
#ifndef GEMMD_SERVICE_GPU_DEVICE_IMAGE_H_
#define GEMMD_SERVICE_GPU_DEVICE_IMAGE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "jit/problem/layout.h"
#include "service/device/device.h"

namespace gemmd::gpu {

class DeviceImage {
 public:
  // INVALID_ARGUMENT when lines overlap or the pieces hold too few bytes.
  static absl::StatusOr<DeviceImage> Create(const device::HostMatrix& from,
                                            const jit::MatrixLayout& layout);

  // Bytes not yet read; layout.device_bytes() at first.
  int64_t remaining_bytes() const;
  // The next out.size() bytes, of which there are as many. Padding is zero.
  void Read(absl::Span<char> out);

 private:
  DeviceImage() = default;

  // Moves on by `bytes` in the pieces.
  void Skip(int64_t bytes);

  absl::Span<const absl::Span<const char>> pieces_;
  int64_t width_bytes_ = 0;  // Of a line, without padding.
  int64_t from_pitch_bytes_ = 0;
  int64_t to_pitch_bytes_ = 0;
  int64_t lines_ = 0;
  char last_mask_ = 0;  // The bits of a line's last byte that are elements.
  // Where the next byte comes from and goes to. Invariant: within a line
  // (column_ < width_bytes_), [piece_][offset_] is the byte of this line at
  // column_, or offset_ is the end of a piece before it.
  size_t piece_ = 0;
  size_t offset_ = 0;
  int64_t line_ = 0;
  int64_t column_ = 0;  // In the device line, below to_pitch_bytes_.
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_DEVICE_IMAGE_H_
