// How a matrix lies in device memory.
//
// The daemon owns device memory, so it pads the leading dimension of every
// matrix to what the tensor memory accelerator wants: a multiple of 16 bytes,
// and of 128 for longer lines, because boxes that straddle cache lines halve
// the speed (1111x2222x3333, H100). Its stores write whole 16 bytes, so padding
// may be overwritten. Clients never see this: copies to and from the host
// change the pitch.
//
// A sparse matrix holds half of the elements of each line: two of every four,
// of f32 one of every two. A line is those values in their order, directly
// followed by its metadata: four bits for every chunk of four (of f32, two)
// elements, the chunk of lower k in the lower half of a byte. Of four, bits
// 0 to 1 say where in the chunk the first value stands and bits 2 to 3 the
// second, which stands behind it; of f32 the bits are 0x4 where the value is
// the first of its two and 0xE where it is the second.
//
// A quantized matrix has scales for groups of the elements of each line. A line
// is those elements, directly followed by an f32 for each group, those by a
// signed byte, its zero point, for each if there are any. It stands for
// scale * (element - zero point).
#ifndef GEMMD_JIT_PROBLEM_LAYOUT_H_
#define GEMMD_JIT_PROBLEM_LAYOUT_H_

#include <cstdint>
#include <limits>

#include "jit/problem/data_type.h"

namespace gemmd::jit {

// How weights are quantized along their lines.
struct Quantization {
  int32_t group = 0;  // Elements that share a scale; 0: they have none.
  bool zero_points = false;

  friend bool operator==(const Quantization&, const Quantization&) = default;
};

// The group of a scale for a whole line.
inline constexpr int32_t kWholeLine = std::numeric_limits<int32_t>::max();

// Distance between lines of so many bytes in device memory: whole lines of the
// cache, or a power of two from 16 bytes on, so that none lies in more lines of
// the cache than it must.
int64_t PitchOf(int64_t width_bytes);

struct MatrixLayout {
  DataType type = DataType::kBf16;
  Order order = Order::kRowMajor;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t count = 1;    // Matrices, one behind the other.
  bool sparse = false;  // Its lines are a multiple of ChunkOf(type) long.
  Quantization quantization = {};

  // Elements along the contiguous dimension, and how many such lines there
  // are in one matrix and in all.
  int64_t width() const;
  int64_t matrix_lines() const;
  int64_t lines() const { return count * matrix_lines(); }

  int64_t width_bytes() const;
  // Whether lines hold something besides elements. Who does not know what
  // counts their bytes.
  bool composite() const { return sparse || quantization.group != 0; }
  // Bits of a line's last byte that elements fill; the others are zero on a
  // device. All of a composite line's.
  int last_byte_bits() const;
  // Where in a line metadata or scales begin.
  int64_t values_bytes() const;
  // Of a sparse line.
  int64_t metadata_bytes() const;
  // Of a quantized line: scales, and where its zero points begin.
  int64_t groups() const;
  int64_t zero_points_at() const { return values_bytes() + 4 * groups(); }
  // Distance between lines in device memory.
  int64_t pitch_bytes() const;
  // Bytes of device memory.
  int64_t device_bytes() const { return lines() * pitch_bytes(); }
  // The same lines as bytes.
  MatrixLayout bytes() const;
  // The matrix that it stands for, as elements alone.
  MatrixLayout dense() const;
  bool empty() const { return rows == 0 || columns == 0 || count == 0; }

  friend bool operator==(const MatrixLayout&, const MatrixLayout&) = default;
};

// Elements that share four bits of metadata in a sparse line.
constexpr int ChunkOf(DataType type) { return type == DataType::kF32 ? 2 : 4; }

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_LAYOUT_H_
