// Elements of a line of a matrix, to and from numbers. Pure functions.
#ifndef GEMMD_SERVICE_HOST_ELEMENTS_H_
#define GEMMD_SERVICE_HOST_ELEMENTS_H_

#include <cstdint>

#include "jit/problem/data_type.h"
#include "jit/problem/layout.h"

namespace gemmd::host {

// What a product takes an element for.
enum class Reading : uint8_t {
  kExact,
  kNearestTf32,  // f32 only, as are truncated ones.
  kTruncatedTf32,
  kSigns,  // b1 only: 0 is 1 and 1 is -1, so that products count differences.
  kUnscaled,  // Of quantized lines: element - zero point.
};

// What elements of a quantized line are scaled by at k.
struct GroupOf {
  GroupOf(const jit::MatrixLayout& layout, const char* line, int64_t k);

  float scale = 0;
  int zero_point = 0;
};

// `line` is the first byte of a line, which need not be aligned. Elements
// `first` to `first + count` of it.
template <typename Number>
void Load(jit::DataType type, Reading reading, const char* line, int64_t first,
          int64_t count, Number* to);

extern template void Load(jit::DataType, Reading, const char*, int64_t, int64_t,
                          float*);
extern template void Load(jit::DataType, Reading, const char*, int64_t, int64_t,
                          double*);

// The same of a line of `layout`; what a sparse one does not store is zero, and
// `first` and `count` are multiples of its chunk. Of a quantized one, what
// elements stand for.
template <typename Number>
void Load(const jit::MatrixLayout& layout, Reading reading, const char* line,
          int64_t first, int64_t count, Number* to);

extern template void Load(const jit::MatrixLayout&, Reading, const char*,
                          int64_t, int64_t, float*);
extern template void Load(const jit::MatrixLayout&, Reading, const char*,
                          int64_t, int64_t, double*);

// Rounds as the contract of matmul.proto says; NaN becomes a GPU's. Not for b1,
// which is no result, nor s32, which is not reached through f32.
void Store(jit::DataType type, const float* from, int64_t count, char* line,
           int64_t first);

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_ELEMENTS_H_
