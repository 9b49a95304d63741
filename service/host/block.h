// Rectangles of matrices, and where elements lie. Plain data and pure
// functions.
#ifndef GEMMD_SERVICE_HOST_BLOCK_H_
#define GEMMD_SERVICE_HOST_BLOCK_H_

#include <cstdint>
#include <cstring>

#include "jit/problem/layout.h"

namespace gemmd::host {

struct Range {
  int64_t first;
  int64_t count;
};

// A rectangle of a matrix.
struct Block {
  Range rows;
  Range columns;

  Range lines(jit::Order order) const {
    return order == jit::Order::kRowMajor ? rows : columns;
  }
  Range along(jit::Order order) const {
    return order == jit::Order::kRowMajor ? columns : rows;
  }
};

// First byte of matrix `i` of a batch; a single one serves all of it.
template <typename Byte>
Byte* Matrix(const jit::MatrixLayout& layout, Byte* data, int64_t i) {
  if (data == nullptr || layout.count == 1) return data;
  return data + i * layout.matrix_lines() * layout.pitch_bytes();
}

template <typename Byte>
Byte* Line(const jit::MatrixLayout& layout, Byte* matrix, int64_t line) {
  return matrix + line * layout.pitch_bytes();
}

// An element of a row-major matrix of f32.
inline float F32At(const jit::MatrixLayout& layout, const char* matrix,
                   int64_t row, int64_t column) {
  float value;
  std::memcpy(&value, Line(layout, matrix, row) + 4 * column, sizeof value);
  return value;
}

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_BLOCK_H_
