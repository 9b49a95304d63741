#include "service/host/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "jit/base/status.h"
#include "service/host/numbers.h"

namespace gemmd::host {
namespace {

using jit::DataType;
using jit::MatrixLayout;
using jit::Order;

// Blocks bound the f64 copies of the operands: (kBlock + kBlock) * kDepth
// elements of A and B and kBlock^2 sums, 10 MiB in all.
constexpr int64_t kBlock = 512;
constexpr int64_t kDepth = 1024;

struct Range {
  int64_t first;
  int64_t count;
};

// A rectangle of a matrix.
struct Block {
  Range rows;
  Range columns;

  Range lines(Order order) const {
    return order == Order::kRowMajor ? rows : columns;
  }
  Range along(Order order) const {
    return order == Order::kRowMajor ? columns : rows;
  }
};

const char* Element(const MatrixLayout& layout, const char* data, int64_t line,
                    int64_t position) {
  return data + line * layout.pitch_bytes() +
         position * jit::BytesOf(layout.type);
}

// Copies one 16-bit element; lines are not aligned in general.
uint16_t Bits16(const char* data, int64_t i) {
  uint16_t bits;
  std::memcpy(&bits, data + 2 * i, sizeof bits);
  return bits;
}

template <typename T>
void LoadLine(DataType type, const char* from, int64_t count, T* to) {
  switch (type) {
    case DataType::kBf16:
      for (int64_t i = 0; i < count; ++i) to[i] = FromBf16(Bits16(from, i));
      return;
    case DataType::kF16:
      for (int64_t i = 0; i < count; ++i) to[i] = FromF16(Bits16(from, i));
      return;
    case DataType::kF32:
      for (int64_t i = 0; i < count; ++i) {
        float value;
        std::memcpy(&value, from + 4 * i, sizeof value);
        to[i] = value;
      }
      return;
    default:
      CHECK(false);  // jit::Validate lets no other type through.
  }
}

void StoreLine(DataType type, const float* from, int64_t count, char* to) {
  const auto store16 = [&](uint16_t (*convert)(float)) {
    for (int64_t i = 0; i < count; ++i) {
      const uint16_t bits = convert(from[i]);
      std::memcpy(to + 2 * i, &bits, sizeof bits);
    }
  };
  switch (type) {
    case DataType::kBf16:
      return store16(ToBf16);
    case DataType::kF16:
      return store16(ToF16);
    case DataType::kF32:
      std::memcpy(to, from, 4 * count);
      return;
    default:
      CHECK(false);
  }
}

// A block as f64, its lines tight and in the order of the matrix.
struct Packed {
  std::vector<double> elements;
  int64_t leading_dimension = 0;
  CBLAS_TRANSPOSE transpose = CblasNoTrans;  // As BLAS sees it, row-major.
};

void Pack(const MatrixLayout& layout, const char* data, const Block& block,
          Packed& packed) {
  const Range lines = block.lines(layout.order);
  const Range along = block.along(layout.order);
  packed.elements.resize(lines.count * along.count);
  packed.leading_dimension = along.count;
  packed.transpose =
      layout.order == Order::kRowMajor ? CblasNoTrans : CblasTrans;
  for (int64_t i = 0; i < lines.count; ++i) {
    LoadLine(layout.type, Element(layout, data, lines.first + i, along.first),
             along.count, packed.elements.data() + i * along.count);
  }
}

class BlockedGemm {
 public:
  BlockedGemm(const jit::Problem& problem, const GemmOperands& operands)
      : problem_(problem), operands_(operands) {}

  void Run() {
    for (int64_t m = 0; m < problem_.m; m += kBlock) {
      for (int64_t n = 0; n < problem_.n; n += kBlock) {
        const Block block = {{m, std::min(kBlock, problem_.m - m)},
                             {n, std::min(kBlock, problem_.n - n)}};
        if (problem_.reads_ab()) Accumulate(block);
        Store(block);
      }
    }
  }

 private:
  // sums_ = the block of A B, row-major and tight.
  void Accumulate(const Block& block) {
    sums_.assign(block.rows.count * block.columns.count, 0.0);
    for (int64_t k = 0; k < problem_.k; k += kDepth) {
      const Range depth = {k, std::min(kDepth, problem_.k - k)};
      Pack(problem_.a(), operands_.a, {block.rows, depth}, a_);
      Pack(problem_.b(), operands_.b, {depth, block.columns}, b_);
      cblas_dgemm(CblasRowMajor, a_.transpose, b_.transpose, block.rows.count,
                  block.columns.count, depth.count, 1.0, a_.elements.data(),
                  a_.leading_dimension, b_.elements.data(),
                  b_.leading_dimension, 1.0, sums_.data(), block.columns.count);
    }
  }

  // Writes the block of D, line by line.
  void Store(const Block& block) {
    const MatrixLayout layout = problem_.d();
    const Range lines = block.lines(layout.order);
    const Range along = block.along(layout.order);
    const bool rows = layout.order == Order::kRowMajor;
    const int64_t line_stride = rows ? block.columns.count : 1;
    const int64_t stride = rows ? 1 : block.columns.count;
    line_.resize(along.count);
    c_line_.resize(along.count);
    for (int64_t i = 0; i < lines.count; ++i) {
      std::fill(line_.begin(), line_.end(), 0.0f);
      if (problem_.reads_ab()) {
        for (int64_t j = 0; j < along.count; ++j) {
          const double sum = sums_[i * line_stride + j * stride];
          line_[j] = problem_.alpha * static_cast<float>(sum);
        }
      }
      if (problem_.reads_c()) {
        LoadLine(
            problem_.c_type,
            Element(problem_.c(), operands_.c, lines.first + i, along.first),
            along.count, c_line_.data());
        for (int64_t j = 0; j < along.count; ++j) {
          line_[j] += problem_.beta * c_line_[j];
        }
      }
      StoreLine(layout.type, line_.data(), along.count,
                const_cast<char*>(Element(layout, operands_.d, lines.first + i,
                                          along.first)));
    }
  }

  const jit::Problem& problem_;
  const GemmOperands& operands_;
  Packed a_;
  Packed b_;
  std::vector<double> sums_;
  std::vector<float> line_;
  std::vector<float> c_line_;
};

}  // namespace

void Gemm(const jit::Problem& problem, const GemmOperands& operands) {
  BlockedGemm(problem, operands).Run();
}

}  // namespace gemmd::host
