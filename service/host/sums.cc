#include "service/host/sums.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "jit/base/for_each.h"
#include "service/host/non_finite.h"
#include "service/host/numbers.h"
#include "service/host/ordered.h"
#include "service/host/parallel.h"

namespace gemmd::host {
namespace {

using jit::DataType;
using jit::MatrixLayout;
using jit::Order;
using jit::Problem;

// Lines that one thread takes at a time, at least.
constexpr int64_t kLinesAtOnce = 64;
// Steps of k that are packed at once; a multiple of every step below.
constexpr int64_t kDepth = 1024;

// part(a range of lines) for all of them, on several threads.
template <typename Part>
void ForEachSlice(int threads, int64_t lines, Part part) {
  const int64_t share = (lines + threads - 1) / threads;
  const int64_t slice =
      (share + kLinesAtOnce - 1) / kLinesAtOnce * kLinesAtOnce;
  jit::ForEach(threads, (lines + slice - 1) / slice, [&](int64_t i) {
    part(Range{i * slice, std::min(slice, lines - i * slice)});
  });
}

double Greatest(DataType integer) {
  return integer == DataType::kU8 ? 255 : integer == DataType::kS8 ? 128 : 1;
}

bool CanOverflow(const Problem& problem) {
  return Greatest(problem.a_type) * Greatest(problem.b_type) * problem.k >
         std::numeric_limits<int32_t>::max();
}

// Products after which the sum is rounded, clamped or scaled.
int64_t StepOf(const Problem& problem) {
  if (problem.epilogue.a_scale == jit::Extent::kBlock) return jit::kScaleBlock;
  const bool clamps = problem.clamps && CanOverflow(problem);
  if (clamps || problem.accumulator == DataType::kF16) {
    return jit::KOf(jit::InstructionOf(problem.arithmetic()));
  }
  return 0;
}

double Clamp(double sum) {
  using Limits = std::numeric_limits<int32_t>;
  return std::clamp<double>(sum, Limits::min(), Limits::max());
}

// Sums of integers are exact in f64: k below 2^31 times 2^16.
double Wrap(double sum) {
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(sum)));
}

double RoundToF16(double sum) {
  return FromF16(ToF16(static_cast<float>(sum)));
}

}  // namespace

Reading ReadingOf(const Problem& problem) {
  if (problem.bit_operation == jit::BitOperation::kXor) return Reading::kSigns;
  switch (problem.precision) {
    case jit::Precision::kTf32:
      return Reading::kNearestTf32;
    case jit::Precision::kFast:
      return Reading::kTruncatedTf32;
    default:
      return Reading::kExact;
  }
}

Sums::Sums(const Problem& problem, const GemmOperands& operands)
    : problem_(problem),
      operands_(operands),
      step_(StepOf(problem)),
      reading_(ReadingOf(problem)) {
  CallBlasOnOneThread();
}

std::vector<double>& Sums::Of(int64_t batch, const Block& block) {
  const MatrixLayout a = problem_.a();
  const MatrixLayout b = problem_.b();
  const char* const a_matrix = Matrix(a, operands_.a, batch);
  const char* const b_matrix = Matrix(b, operands_.b, batch);
  sums_.assign(block.rows.count * block.columns.count, 0.0);
  for (int64_t k = 0; k < problem_.k; k += kDepth) {
    const Range depth = {k, std::min(kDepth, problem_.k - k)};
    Pack(a, a_matrix, {block.rows, depth}, a.order == Order::kColumnMajor, a_);
    Pack(b, b_matrix, {depth, block.columns}, b.order == Order::kRowMajor, b_);
    const int64_t step = step_ == 0 ? depth.count : step_;
    for (int64_t i = 0; i < depth.count; i += step) {
      Add(block, k, {i, std::min(step, depth.count - i)});
    }
  }
  Finish();
  return sums_;
}

void Sums::Pack(const MatrixLayout& layout, const char* matrix,
                const Block& block, bool k_is_line, Packed& packed) const {
  const Range lines = block.lines(layout.order);
  const Range along = block.along(layout.order);
  packed.elements.resize(lines.count * along.count);
  packed.leading_dimension = along.count;
  packed.k_stride = k_is_line ? along.count : 1;
  packed.line_stride = k_is_line ? 1 : along.count;
  packed.transpose =
      layout.order == Order::kRowMajor ? CblasNoTrans : CblasTrans;
  const bool takes_ones = TakesOnes(problem_, layout);
  const int threads = ThreadsFor(lines.count * along.count * kLinesAtOnce);
  ForEachSlice(threads, lines.count, [&](Range slice) {
    for (int64_t i = slice.first; i < slice.first + slice.count; ++i) {
      double* const to = packed.elements.data() + i * along.count;
      Load(layout, reading_, Line(layout, matrix, lines.first + i), along.first,
           along.count, to);
      if (takes_ones) PutOnes(along.count, to);
    }
  });
}

void Sums::Multiply(const Block& block, Range depth, double keep,
                    std::vector<double>& to) const {
  const int64_t columns = block.columns.count;
  // Sums of integers are exact in any order.
  if (problem_.invariant && problem_.accumulator != DataType::kS32) {
    const auto lines = [&](const Packed& packed, int64_t count) {
      return Lines{packed.elements.data() + depth.first * packed.k_stride,
                   packed.line_stride, packed.k_stride, count};
    };
    return MultiplyOrdered(lines(a_, block.rows.count), lines(b_, columns),
                           depth.count, keep, to.data());
  }
  const int threads = ThreadsFor(block.rows.count * columns * depth.count);
  ForEachSlice(threads, block.rows.count, [&](Range rows) {
    cblas_dgemm(
        CblasRowMajor, a_.transpose, b_.transpose, rows.count, columns,
        depth.count, 1.0,
        a_.elements.data() + rows.first * a_.line_stride +
            depth.first * a_.k_stride,
        a_.leading_dimension, b_.elements.data() + depth.first * b_.k_stride,
        b_.leading_dimension, keep, to.data() + rows.first * columns, columns);
  });
}

void Sums::Add(const Block& block, int64_t first_k, Range depth) {
  if (problem_.epilogue.a_scale == jit::Extent::kBlock) {
    return AddScaledBlocks(block, first_k, depth);
  }
  Multiply(block, depth, 1.0, sums_);
  if (step_ == 0) return;
  const auto round =
      problem_.accumulator == DataType::kF16 ? RoundToF16 : Clamp;
  std::transform(sums_.begin(), sums_.end(), sums_.begin(), round);
}

void Sums::AddScaledBlocks(const Block& block, int64_t first_k, Range depth) {
  partial_.assign(sums_.size(), 0.0);
  Multiply(block, depth, 0.0, partial_);
  const MatrixLayout a = problem_.a_scale();
  const MatrixLayout b = problem_.b_scale();
  const int64_t k = (first_k + depth.first) / jit::kScaleBlock;
  for (int64_t i = 0; i < block.rows.count; ++i) {
    const double a_scale = F32At(a, operands_.a_scale, block.rows.first + i, k);
    for (int64_t j = 0; j < block.columns.count; ++j) {
      const int64_t at = i * block.columns.count + j;
      sums_[at] += partial_[at] * a_scale *
                   F32At(b, operands_.b_scale, k,
                         (block.columns.first + j) / jit::kScaleBlock);
    }
  }
}

void Sums::Finish() {
  if (problem_.accumulator != DataType::kS32) return;
  const double k = static_cast<double>(problem_.k);
  for (double& sum : sums_) {
    // Of k products of signs, those of different bits are negative.
    if (reading_ == Reading::kSigns) sum = (k - sum) / 2;
    sum = problem_.clamps ? Clamp(sum) : Wrap(sum);
  }
}

}  // namespace gemmd::host
