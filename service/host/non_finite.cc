#include "service/host/non_finite.h"

#include <cmath>

#include "jit/problem/metadata.h"
#include "service/host/elements.h"
#include "service/host/sums.h"

namespace gemmd::host {
namespace {

using jit::MatrixLayout;
using jit::Order;
using jit::Sparse;

}  // namespace

NonFinite::NonFinite(const jit::Problem& problem, const GemmOperands& operands)
    : problem_(problem), operands_(operands) {
  if (problem.sparse == Sparse::kNone || !problem.reads_ab() ||
      problem.accumulator == jit::DataType::kS32) {
    return;
  }
  const bool a = problem.sparse == Sparse::kA;
  Take(a ? operands.b : operands.a);
  if (!empty()) (a ? operands_.b : operands_.a) = finite_.data();
}

void NonFinite::Take(const char* from) {
  const bool of_b = problem_.sparse == Sparse::kA;
  const MatrixLayout layout = of_b ? problem_.b() : problem_.a();
  const Order along_k = of_b ? Order::kColumnMajor : Order::kRowMajor;
  const Reading reading = ReadingOf(problem_);
  std::vector<double> values(layout.width());
  for (int64_t i = 0; i < layout.lines(); ++i) {
    const char* const line = Line(layout, from, i);
    Load(layout, reading, line, 0, layout.width(), values.data());
    for (int64_t j = 0; j < layout.width(); ++j) {
      if (std::isfinite(values[j])) continue;
      if (empty()) finite_.assign(from, from + layout.device_bytes());
      const int64_t in_matrix = i % layout.matrix_lines();
      const bool k_along = layout.order == along_k;
      elements_.push_back({.matrix = i / layout.matrix_lines(),
                           .line = k_along ? in_matrix : j,
                           .k = k_along ? j : in_matrix,
                           .value = values[j]});
      const float one = std::signbit(values[j]) ? -1 : 1;
      Store(layout.type, &one, 1, Line(layout, finite_.data(), i), j);
    }
  }
}

bool NonFinite::Stored(const char* line, int64_t k, double& value) const {
  const bool a = problem_.sparse == Sparse::kA;
  const MatrixLayout layout = a ? problem_.a() : problem_.b();
  const int chunk = jit::ChunkOf(layout.type);
  const jit::Places places = jit::PlacesOf(
      layout.type, jit::MetadataOf(line + layout.values_bytes(), k / chunk));
  const bool second = chunk == 4 && places.second == k % chunk;
  if (!second && places.first != k % chunk) return false;
  Load(layout.type, ReadingOf(problem_), line,
       k / chunk * (chunk / 2) + (second ? 1 : 0), 1, &value);
  return true;
}

void NonFinite::AddTo(int64_t batch, const Block& block, double* sums) const {
  const bool of_b = problem_.sparse == Sparse::kA;
  const MatrixLayout sparse = of_b ? problem_.a() : problem_.b();
  const MatrixLayout dense = of_b ? problem_.b() : problem_.a();
  const char* const matrix =
      Matrix(sparse, of_b ? operands_.a : operands_.b, batch);
  const Range& of_dense = of_b ? block.columns : block.rows;
  const Range& of_sparse = of_b ? block.rows : block.columns;
  for (const Element& element : elements_) {
    const int64_t at = element.line - of_dense.first;
    if (element.matrix != (dense.count == 1 ? 0 : batch) || at < 0 ||
        at >= of_dense.count) {
      continue;
    }
    for (int64_t i = 0; i < of_sparse.count; ++i) {
      double value;
      if (!Stored(Line(sparse, matrix, of_sparse.first + i), element.k,
                  value)) {
        continue;
      }
      const int64_t row = of_b ? i : at;
      const int64_t column = of_b ? at : i;
      sums[row * block.columns.count + column] += value * element.value;
    }
  }
}

}  // namespace gemmd::host
