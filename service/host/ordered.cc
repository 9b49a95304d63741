#include "service/host/ordered.h"

#include <algorithm>
#include <array>
#include <vector>

#include "jit/base/for_each.h"
#include "service/host/parallel.h"

namespace gemmd::host {
namespace {

// Columns of B whose sums one row of A makes at once.
constexpr int64_t kPanelColumns = 16;

}  // namespace

void MultiplyOrdered(const Lines& a, const Lines& b, int64_t depth, double keep,
                     double* to) {
  const int64_t panels = (b.count + kPanelColumns - 1) / kPanelColumns;
  const int threads = ThreadsFor(a.count * b.count * depth);
  jit::ForEach(threads, panels, [&](int64_t panel) {
    const int64_t first = panel * kPanelColumns;
    const int64_t columns = std::min(kPanelColumns, b.count - first);
    std::vector<double> packed(depth * kPanelColumns);
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t j = 0; j < columns; ++j) {
        packed[k * kPanelColumns + j] =
            b.elements[(first + j) * b.stride + k * b.k_stride];
      }
    }
    for (int64_t i = 0; i < a.count; ++i) {
      double* const row = to + i * b.count + first;
      std::array<double, kPanelColumns> sums = {};
      for (int64_t j = 0; j < columns; ++j) sums[j] = keep * row[j];
      const double* factors = packed.data();
      for (int64_t k = 0; k < depth; ++k, factors += kPanelColumns) {
        const double factor = a.elements[i * a.stride + k * a.k_stride];
        for (int64_t j = 0; j < kPanelColumns; ++j) {
          sums[j] += factor * factors[j];
        }
      }
      std::copy_n(sums.begin(), columns, row);
    }
  });
}

}  // namespace gemmd::host
