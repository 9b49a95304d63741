#include "service/gpu/device_image.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::gpu {
namespace {

constexpr char kWholeByte = static_cast<char>(0xff);

// Elements of less than a byte end anywhere in a line's last byte, from its
// lowest bit on.
char LastByteMask(const jit::MatrixLayout& layout) {
  return static_cast<char>((1 << layout.last_byte_bits()) - 1);
}

}  // namespace

absl::StatusOr<DeviceImage> DeviceImage::Create(
    const device::HostMatrix& from, const jit::MatrixLayout& layout) {
  DeviceImage image;
  image.pieces_ = from.pieces;
  image.width_bytes_ = layout.width_bytes();
  image.from_pitch_bytes_ = from.pitch_bytes;
  image.to_pitch_bytes_ = layout.pitch_bytes();
  image.lines_ = layout.lines();
  image.last_mask_ = LastByteMask(layout);
  if (image.lines_ > 1 && from.pitch_bytes < image.width_bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("Lines are ", from.pitch_bytes, " bytes apart, but ",
                     image.width_bytes_, " bytes wide"));
  }
  int64_t bytes = 0;
  for (const absl::Span<const char> piece : from.pieces) {
    bytes += static_cast<int64_t>(piece.size());
  }
  // By division, because lines * pitch may not fit 64 bits.
  const int64_t spare = bytes - image.width_bytes_;
  if (spare < 0 ||
      (image.lines_ > 1 && spare / from.pitch_bytes < image.lines_ - 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("A matrix has ", bytes, " bytes, but its shape needs ",
                     image.lines_, " lines of ", image.width_bytes_, " bytes, ",
                     from.pitch_bytes, " bytes apart"));
  }
  // Without padding on either side the lines are one run.
  if (image.last_mask_ == kWholeByte &&
      image.from_pitch_bytes_ == image.width_bytes_ &&
      image.to_pitch_bytes_ == image.width_bytes_) {
    image.width_bytes_ *= image.lines_;
    image.to_pitch_bytes_ = image.width_bytes_;
    image.lines_ = 1;
  }
  return image;
}

int64_t DeviceImage::remaining_bytes() const {
  return (lines_ - line_) * to_pitch_bytes_ - column_;
}

void DeviceImage::Read(absl::Span<char> out) {
  CHECK(static_cast<int64_t>(out.size()) <= remaining_bytes());
  char* to = out.data();
  int64_t left = static_cast<int64_t>(out.size());
  while (left > 0) {
    int64_t run;
    if (column_ < width_bytes_) {
      while (offset_ == pieces_[piece_].size()) {
        ++piece_;
        offset_ = 0;
      }
      const absl::Span<const char> rest = pieces_[piece_].subspan(offset_);
      run = std::min(
          {left, width_bytes_ - column_, static_cast<int64_t>(rest.size())});
      std::memcpy(to, rest.data(), static_cast<size_t>(run));
      if (column_ + run == width_bytes_) to[run - 1] &= last_mask_;
      offset_ += static_cast<size_t>(run);
    } else {
      run = std::min(left, to_pitch_bytes_ - column_);
      std::memset(to, 0, static_cast<size_t>(run));
    }
    to += run;
    left -= run;
    column_ += run;
    if (column_ == to_pitch_bytes_) {
      column_ = 0;
      if (++line_ < lines_) Skip(from_pitch_bytes_ - width_bytes_);
    }
  }
}

void DeviceImage::Skip(int64_t bytes) {
  while (bytes > 0) {
    const int64_t rest = static_cast<int64_t>(pieces_[piece_].size() - offset_);
    if (bytes < rest) {
      offset_ += static_cast<size_t>(bytes);
      return;
    }
    bytes -= rest;
    ++piece_;
    offset_ = 0;
  }
}

}  // namespace gemmd::gpu
