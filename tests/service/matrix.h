// Matrices for tests: elements by row and column, as bytes in any layout.
#ifndef GEMMD_TESTS_SERVICE_MATRIX_H_
#define GEMMD_TESTS_SERVICE_MATRIX_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

#include "jit/problem/layout.h"
#include "service/host/numbers.h"

namespace gemmd::testing {

// Writes `value`, rounded to `type`, at element `index` of `bytes`.
inline void Put(jit::DataType type, float value, char* bytes, int64_t index) {
  if (type == jit::DataType::kF32) {
    std::memcpy(bytes + 4 * index, &value, 4);
    return;
  }
  const uint16_t bits =
      type == jit::DataType::kF16 ? host::ToF16(value) : host::ToBf16(value);
  std::memcpy(bytes + 2 * index, &bits, 2);
}

inline float Get(jit::DataType type, const char* bytes, int64_t index) {
  if (type == jit::DataType::kF32) {
    float value;
    std::memcpy(&value, bytes + 4 * index, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes + 2 * index, 2);
  return type == jit::DataType::kF16 ? host::FromF16(bits)
                                     : host::FromBf16(bits);
}

inline int64_t Offset(const jit::MatrixLayout& layout, int64_t pitch_elements,
                      int64_t row, int64_t column) {
  return layout.order == jit::Order::kRowMajor ? row * pitch_elements + column
                                               : column * pitch_elements + row;
}

// The bytes of a matrix with lines `pitch_elements` apart and padding of 0xff
// bytes (NaN), the last line padded too.
inline std::string Fill(const jit::MatrixLayout& layout, int64_t pitch_elements,
                        const std::function<float(int64_t, int64_t)>& value) {
  std::string bytes(layout.lines() * pitch_elements * jit::BytesOf(layout.type),
                    '\xff');
  for (int64_t i = 0; i < layout.rows; ++i) {
    for (int64_t j = 0; j < layout.columns; ++j) {
      Put(layout.type, value(i, j), bytes.data(),
          Offset(layout, pitch_elements, i, j));
    }
  }
  return bytes;
}

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_MATRIX_H_
