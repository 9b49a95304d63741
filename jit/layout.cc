#include "jit/layout.h"

namespace gemmd::jit {
namespace {

// Strides of a tensor map are multiples of 16 bytes (CUDA driver API,
// cuTensorMapEncodeTiled).
constexpr int64_t kPitchAlignmentBytes = 16;

}  // namespace

int64_t MatrixLayout::width() const {
  return order == Order::kRowMajor ? columns : rows;
}

int64_t MatrixLayout::lines() const {
  return order == Order::kRowMajor ? rows : columns;
}

int64_t MatrixLayout::width_bytes() const {
  return (width() * BitsOf(type) + 7) / 8;
}

int64_t MatrixLayout::pitch_bytes() const {
  return (width_bytes() + kPitchAlignmentBytes - 1) / kPitchAlignmentBytes *
         kPitchAlignmentBytes;
}

}  // namespace gemmd::jit
