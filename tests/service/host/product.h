// One product on the host device's arithmetic, from functions that give the
// elements. All padding, and slack bits, hold ones.
#ifndef GEMMD_TESTS_SERVICE_HOST_PRODUCT_H_
#define GEMMD_TESTS_SERVICE_HOST_PRODUCT_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

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
    problem.a_type = arithmetic.a;
    problem.b_type = arithmetic.b;
    problem.accumulator = arithmetic.accumulator;
    problem.precision = arithmetic.precision;
    problem.clamps = arithmetic.clamps;
    problem.bit_operation = arithmetic.bit_operation;
  }
  problem.c_type = problem.d_type = jit::DefaultOutput(problem.a_type);
  return problem;
}

inline void PutElement(jit::DataType type, double value, char* line,
                       int64_t i) {
  const float number = static_cast<float>(value);
  const int32_t integer = static_cast<int32_t>(value);
  if (type == jit::DataType::kB1) {
    const char bit = static_cast<char>(1 << i % 8);
    line[i / 8] = value != 0 ? line[i / 8] | bit : line[i / 8] & ~bit;
  } else if (type == jit::DataType::kS32) {
    std::memcpy(line + 4 * i, &integer, sizeof integer);
  } else {
    Store(type, &number, 1, line, i);
  }
}

// Every matrix of the layout holds the same elements.
inline std::string Bytes(const jit::MatrixLayout& layout,
                         const Element& element) {
  std::string bytes(layout.device_bytes(), '\xff');
  const bool by_rows = layout.order == jit::Order::kRowMajor;
  for (int64_t line = 0; line < layout.lines(); ++line) {
    const int64_t in_matrix = line % layout.matrix_lines();
    for (int64_t i = 0; i < layout.width(); ++i) {
      PutElement(layout.type,
                 by_rows ? element(in_matrix, i) : element(i, in_matrix),
                 bytes.data() + line * layout.pitch_bytes(), i);
    }
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
    double value;
    Load(layout.type, Reading::kExact,
         bytes.data() + line * layout.pitch_bytes(), by_rows ? column : row, 1,
         &value);
    return value;
  }

  const jit::Problem problem_;
  const std::string a_, b_;
  std::string d_, auxiliary_;
  float amax_ = -1;
};

}  // namespace gemmd::host

#endif  // GEMMD_TESTS_SERVICE_HOST_PRODUCT_H_
