// One product on the host device's arithmetic, from functions that give the
// elements. All padding, and slack bits, hold ones.
#ifndef GEMMD_TESTS_SERVICE_HOST_PRODUCT_H_
#define GEMMD_TESTS_SERVICE_HOST_PRODUCT_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "jit/problem/metadata.h"
#include "jit/problem/problem.h"
#include "service/host/elements.h"
#include "service/host/gemm.h"

namespace gemmd::host {

using Element = std::function<double(int64_t row, int64_t column)>;

inline Element Constant(double value) {
  return [value](int64_t, int64_t) { return value; };
}

// A problem of one arithmetic, by its name: "e4m3-fast".
inline jit::Problem ProblemOf(const std::string& name, int64_t m, int64_t n,
                              int64_t k) {
  jit::Problem problem = {.m = m, .n = n, .k = k};
  for (const jit::Arithmetic& arithmetic : jit::Arithmetics()) {
    if (jit::Name(arithmetic) != name) continue;
    problem.SetArithmetic(arithmetic);
  }
  if (problem.sparse == jit::Sparse::kB) {
    problem.b_order = jit::Order::kColumnMajor;
  }
  return problem;
}

inline void PutElement(jit::DataType type, double value, char* line,
                       int64_t i) {
  const float number = static_cast<float>(value);
  const int32_t integer = static_cast<int32_t>(value);
  if (type == jit::DataType::kB1) {
    const char bit = static_cast<char>(1 << i % 8);
    line[i / 8] = value != 0 ? line[i / 8] | bit : line[i / 8] & ~bit;
  } else if (jit::BitsOf(type) == 4) {
    const int least = type == jit::DataType::kS4 ? -8 : 0;
    const int bits = std::clamp(integer, least, least + 15) & 0xf;
    char& byte = line[i / 2];
    byte = static_cast<char>(i % 2 == 0 ? (byte & 0xf0) | bits
                                        : (byte & 0x0f) | bits << 4);
  } else if (type == jit::DataType::kS32) {
    std::memcpy(line + 4 * i, &integer, sizeof integer);
  } else {
    Store(type, &number, 1, line, i);
  }
}

// Legal metadata of a chunk: all that there are, in turn.
inline int SomeMetadata(jit::DataType type, int64_t line, int64_t chunk) {
  constexpr int kOfFour[] = {0x4, 0xe, 0x9, 0xc, 0x8, 0xd};
  return kOfFour[(line + chunk) % (type == jit::DataType::kF32 ? 2 : 6)];
}

// Whether a line of these has a value at k.
inline bool IsStored(jit::DataType type, int64_t line, int64_t k) {
  const int chunk = jit::ChunkOf(type);
  const jit::Places places =
      jit::PlacesOf(type, SomeMetadata(type, line, k / chunk));
  return places.first == k % chunk ||
         (chunk == 4 && places.second == k % chunk);
}

// Of a sparse line: what `element` has where SomeMetadata say.
inline void PutSparseLine(const jit::MatrixLayout& layout, int64_t in_matrix,
                          const std::function<double(int64_t k)>& element,
                          char* line) {
  const int width = jit::ChunkOf(layout.type);
  char* const metadata = line + layout.values_bytes();
  for (int64_t i = 0; i < layout.width() / width; ++i) {
    const int bits = SomeMetadata(layout.type, in_matrix, i);
    const jit::Places places = jit::PlacesOf(layout.type, bits);
    const int64_t first = i * width;
    PutElement(layout.type, element(first + places.first), line, first / 2);
    if (width == 4) {
      PutElement(layout.type, element(first + places.second), line,
                 first / 2 + 1);
    }
    char& byte = metadata[i / 2];
    byte = static_cast<char>(i % 2 == 0 ? (byte & 0xf0) | bits
                                        : (byte & 0x0f) | bits << 4);
  }
}

// What a group of a quantized line has, and the group that is at k.
inline float SomeScale(int64_t line, int64_t group) {
  return 0.7f - 0.13f * static_cast<float>(line % 11) +
         0.017f * static_cast<float>(group % 23);
}

inline int SomeZeroPoint(int64_t line, int64_t group) {
  constexpr int kPoints[] = {3, -128, 127, 0, -9, 8};
  return kPoints[(line + group) % 6];
}

// What is multiplied of a quantized line before its group's scale.
inline double LessZeroPoint(const jit::Quantization& quantization,
                            double element, int64_t line, int64_t k) {
  return quantization.zero_points
             ? element - SomeZeroPoint(line, k / quantization.group)
             : element;
}

inline void PutGroups(const jit::MatrixLayout& layout, int64_t in_matrix,
                      char* line) {
  for (int64_t i = 0; i < layout.groups(); ++i) {
    const float scale = SomeScale(in_matrix, i);
    std::memcpy(line + layout.values_bytes() + 4 * i, &scale, sizeof scale);
    if (layout.quantization.zero_points) {
      line[layout.zero_points_at() + i] =
          static_cast<char>(SomeZeroPoint(in_matrix, i));
    }
  }
}

// Every matrix of the layout holds the same elements; of a sparse one, some of
// them.
inline std::string Bytes(const jit::MatrixLayout& layout,
                         const Element& element) {
  std::string bytes(layout.device_bytes(), '\xff');
  const bool by_rows = layout.order == jit::Order::kRowMajor;
  for (int64_t line = 0; line < layout.lines(); ++line) {
    const int64_t in_matrix = line % layout.matrix_lines();
    char* const to = bytes.data() + line * layout.pitch_bytes();
    const auto at = [&](int64_t i) {
      return by_rows ? element(in_matrix, i) : element(i, in_matrix);
    };
    if (layout.sparse) {
      PutSparseLine(layout, in_matrix, at, to);
      continue;
    }
    for (int64_t i = 0; i < layout.width(); ++i) {
      PutElement(layout.type, at(i), to, i);
    }
    PutGroups(layout, in_matrix, to);
  }
  return bytes;
}

struct Values {
  Element a = Constant(0);
  Element b = Constant(0);
  Element c = Constant(0);
  Element bias = Constant(0);
  Element a_scale = Constant(1);
  Element b_scale = Constant(1);
  Element d_scale = Constant(1);
};

class Product {
 public:
  Product(const jit::Problem& problem, const Values& values)
      : problem_(problem),
        a_(Bytes(problem.a(), values.a)),
        b_(Bytes(problem.b(), values.b)) {
    const std::string c = Bytes(problem.c(), values.c);
    const std::string bias = Bytes(problem.bias(), values.bias);
    const std::string a_scale = Bytes(problem.a_scale(), values.a_scale);
    const std::string b_scale = Bytes(problem.b_scale(), values.b_scale);
    const std::string d_scale = Bytes(problem.d_scale(), values.d_scale);
    d_.assign(problem.d().device_bytes(), '\x55');
    auxiliary_ = d_;
    Gemm(problem,
         {.a = problem.reads_ab() ? a_.data() : nullptr,
          .b = problem.reads_ab() ? b_.data() : nullptr,
          .c = problem.reads_c() ? c.data() : nullptr,
          .d = d_.data(),
          .bias = bias.data(),
          .a_scale = a_scale.data(),
          .b_scale = b_scale.data(),
          .d_scale = d_scale.data(),
          .auxiliary =
              problem.epilogue.writes_auxiliary ? auxiliary_.data() : nullptr,
          .amax = &amax_});
  }

  // As stored and read back; `batch` counts matrices.
  double a(int64_t i, int64_t p) const { return At(problem_.a(), a_, i, p, 0); }
  double b(int64_t p, int64_t j) const { return At(problem_.b(), b_, p, j, 0); }
  double d(int64_t i, int64_t j, int64_t batch = 0) const {
    return At(problem_.d(), d_, i, j, batch);
  }
  double auxiliary(int64_t i, int64_t j) const {
    return At(problem_.d(), auxiliary_, i, j, 0);
  }
  float amax() const { return amax_; }

 private:
  static double At(const jit::MatrixLayout& layout, const std::string& bytes,
                   int64_t row, int64_t column, int64_t batch) {
    const bool by_rows = layout.order == jit::Order::kRowMajor;
    const int64_t line =
        batch * layout.matrix_lines() + (by_rows ? row : column);
    const int64_t i = by_rows ? column : row;
    // A chunk of a sparse line, or an element.
    const int count = layout.sparse ? jit::ChunkOf(layout.type) : 1;
    double values[4];
    Load(layout, Reading::kExact, bytes.data() + line * layout.pitch_bytes(),
         i / count * count, count, values);
    return values[i % count];
  }

  const jit::Problem problem_;
  const std::string a_, b_;
  std::string d_, auxiliary_;
  float amax_ = -1;
};

}  // namespace gemmd::host

#endif  // GEMMD_TESTS_SERVICE_HOST_PRODUCT_H_
