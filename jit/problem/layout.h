// How a matrix lies in device memory.
//
// The daemon owns device memory, so it pads the leading dimension of every
// matrix to what the tensor memory accelerator wants: a multiple of 16 bytes,
// and of 128 for longer lines, because boxes that straddle cache lines halve
// the speed (1111x2222x3333, H100). Its stores write whole 16 bytes, so padding
// may be overwritten. Clients never see this: copies to and from the host
// change the pitch.
#ifndef GEMMD_JIT_PROBLEM_LAYOUT_H_
#define GEMMD_JIT_PROBLEM_LAYOUT_H_

#include <cstdint>

#include "jit/problem/data_type.h"

namespace gemmd::jit {

struct MatrixLayout {
  DataType type = DataType::kBf16;
  Order order = Order::kRowMajor;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t count = 1;  // Matrices, one behind the other.

  // Elements along the contiguous dimension, and how many such lines there
  // are in one matrix and in all.
  int64_t width() const;
  int64_t matrix_lines() const;
  int64_t lines() const { return count * matrix_lines(); }

  int64_t width_bytes() const;
  // Distance between lines in device memory: width_bytes() rounded up.
  int64_t pitch_bytes() const;
  // Bytes of device memory.
  int64_t device_bytes() const { return lines() * pitch_bytes(); }
  bool empty() const { return rows == 0 || columns == 0 || count == 0; }

  friend bool operator==(const MatrixLayout&, const MatrixLayout&) = default;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_LAYOUT_H_
