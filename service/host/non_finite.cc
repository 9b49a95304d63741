#include "service/host/non_finite.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include "jit/base/for_each.h"
#include "jit/base/status.h"
#include "jit/problem/metadata.h"
#include "service/host/elements.h"
#include "service/host/parallel.h"
#include "service/host/sums.h"

namespace gemmd::host {
namespace {

using jit::MatrixLayout;
using jit::Order;
using jit::Sparse;

constexpr int64_t kBits = 64;
// Steps of k that are looked at together. No block has more lines.
constexpr int64_t kDepth = 1024;
using Elements = std::array<double, kDepth>;

// Calls part(i) for all below `count`, on several threads where elements are
// many. Who shares a word of 64 is on one of them.
template <typename Part>
void ForEachLine(int64_t count, int64_t elements, Part part) {
  // Looking at one takes as long as some products.
  const int threads = ThreadsFor(elements * kBits);
  jit::ForEach(threads, (count + kBits - 1) / kBits, [&](int64_t word) {
    const int64_t end = std::min(count, (word + 1) * kBits);
    for (int64_t i = word * kBits; i < end; ++i) part(i);
  });
}

}  // namespace

bool TakesOnes(const jit::Problem& problem, const MatrixLayout& operand) {
  return problem.sparse != Sparse::kNone && !operand.sparse &&
         problem.accumulator != jit::DataType::kS32;
}

void PutOnes(int64_t count, double* elements) {
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(elements[i])) {
      elements[i] = std::signbit(elements[i]) ? -1 : 1;
    }
  }
}

void NonFinite::AddTo(int64_t batch, const Block& block, double* sums) {
  const bool of_b = problem_.sparse == Sparse::kA;
  if (!TakesOnes(problem_, of_b ? problem_.b() : problem_.a())) return;
  for (int64_t k = 0; k < problem_.k; k += kDepth) {
    const Range depth = {k, std::min(kDepth, problem_.k - k)};
    if (!Find(batch, of_b ? block.columns : block.rows, depth)) continue;
    FindStored(batch, of_b ? block.rows : block.columns, depth);
    AddProducts(block, sums);
  }
}

bool NonFinite::Find(int64_t batch, Range lines, Range depth) {
  const bool of_b = problem_.sparse == Sparse::kA;
  const MatrixLayout layout = of_b ? problem_.b() : problem_.a();
  const Reading reading = ReadingOf(problem_);
  const char* const matrix =
      Matrix(layout, of_b ? operands_.b : operands_.a, batch);
  const Block block = of_b ? Block{depth, lines} : Block{lines, depth};
  const Range of_matrix = block.lines(layout.order);
  const Range along = block.along(layout.order);
  const bool k_is_line =
      layout.order == (of_b ? Order::kRowMajor : Order::kColumnMajor);
  CHECK(along.count <= kDepth);
  words_ = (depth.count + kBits - 1) / kBits;
  dense_.assign(lines.count * words_, {});
  std::atomic<bool> found = false;
  ForEachLine(of_matrix.count, of_matrix.count * along.count, [&](int64_t i) {
    Elements elements;
    Load(layout, reading, Line(layout, matrix, of_matrix.first + i),
         along.first, along.count, elements.data());
    for (int64_t j = 0; j < along.count; ++j) {
      if (std::isfinite(elements[j])) continue;
      const int64_t line = k_is_line ? j : i;
      const int64_t step = k_is_line ? i : j;
      dense_[line * words_ + step / kBits].Set(step % kBits, elements[j]);
      found = true;
    }
  });
  return found;
}

void NonFinite::FindStored(int64_t batch, Range lines, Range depth) {
  const bool a = problem_.sparse == Sparse::kA;
  const MatrixLayout layout = a ? problem_.a() : problem_.b();
  const char* const matrix =
      Matrix(layout, a ? operands_.a : operands_.b, batch);
  const int chunk = jit::ChunkOf(layout.type);
  stored_.assign(lines.count * words_, {});
  ForEachLine(lines.count, lines.count * depth.count, [&](int64_t i) {
    const char* const line = Line(layout, matrix, lines.first + i);
    Elements elements;
    Load(layout.type, ReadingOf(problem_), line, depth.first / 2,
         depth.count / 2, elements.data());
    const double* element = elements.data();
    const auto set = [&](int64_t step) {
      stored_[i * words_ + step / kBits].Set(step % kBits, *element++);
    };
    for (int64_t step = 0; step < depth.count; step += chunk) {
      const jit::Places places = jit::PlacesOf(
          layout.type, jit::MetadataOf(line + layout.values_bytes(),
                                       (depth.first + step) / chunk));
      set(step + places.first);
      if (chunk == 4) set(step + places.second);
    }
  });
}

void NonFinite::AddProducts(const Block& block, double* sums) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool of_b = problem_.sparse == Sparse::kA;
  const int64_t dense_lines = of_b ? block.columns.count : block.rows.count;
  const int64_t stored_lines = of_b ? block.rows.count : block.columns.count;
  const int64_t dense_step = of_b ? 1 : block.columns.count;
  const int64_t stored_step = of_b ? block.columns.count : 1;
  ForEachLine(dense_lines, dense_lines * stored_lines, [&](int64_t j) {
    const Signs* const dense = dense_.data() + j * words_;
    const bool any = std::any_of(dense, dense + words_, [](const Signs& signs) {
      return (signs.plus | signs.minus) != 0;
    });
    if (!any) return;
    for (int64_t i = 0; i < stored_lines; ++i) {
      const Signs* const stored = stored_.data() + i * words_;
      Signs products;
      for (int64_t word = 0; word < words_; ++word) {
        products.plus |= (stored[word].plus & dense[word].plus) |
                         (stored[word].minus & dense[word].minus);
        products.minus |= (stored[word].plus & dense[word].minus) |
                          (stored[word].minus & dense[word].plus);
      }
      double& sum = sums[j * dense_step + i * stored_step];
      if (products.plus != 0) sum += kInfinity;
      if (products.minus != 0) sum -= kInfinity;
    }
  });
}

}  // namespace gemmd::host
