#include "service/host/hopper/panels.h"

#include <algorithm>
#include <array>

#include "jit/base/status.h"
#include "service/host/hopper/split.h"
#include "service/host/non_finite.h"

namespace gemmd::host {
namespace {

// More than the steps of a stage, and than the lines of a panel.
constexpr int64_t kMostElements = 128;
using Elements = std::array<double, kMostElements>;

}  // namespace

void Panels::Resize(int64_t stages, int64_t lines) {
  CHECK(depth_ <= kMostElements);
  lines_ = lines;
  values_.Resize(stages * lines_ * depth_);
  exponents_.Resize(stages * lines_ * depth_);
}

void Panels::Read(const char* line, Range elements, int plane,
                  double* to) const {
  if (!reading_.splits) {
    Load(layout_, reading_.reading, line, elements.first, elements.count, to);
    if (reading_.takes_ones) PutOnes(elements.count, to);
    return;
  }
  std::array<float, kMostElements> whole;
  Load(layout_.type, Reading::kExact, line, elements.first, elements.count,
       whole.data());
  for (int64_t i = 0; i < elements.count; ++i) {
    to[i] = SplitF32(whole[i]).plane[plane];
  }
}

void Panels::Put(double value, int64_t at) {
  values_.data()[at] = value;
  exponents_.data()[at] = Exponent(value, reading_.least);
}

void Panels::PackRows(const char* matrix, Range rows, Range steps, int plane,
                      int64_t stage, int64_t to_row) {
  const int64_t to = RowAt(stage, to_row);
  Elements elements;
  if (layout_.order == jit::Order::kRowMajor) {
    for (int64_t i = 0; i < rows.count; ++i) {
      Read(Line(layout_, matrix, rows.first + i), steps, plane,
           elements.data());
      for (int64_t p = 0; p < depth_; ++p) {
        Put(p < steps.count ? elements[p] : 0, to + i * depth_ + p);
      }
    }
    return;
  }
  for (int64_t p = 0; p < depth_; ++p) {
    elements.fill(0);
    for (int64_t first = 0; first < rows.count; first += kMostElements) {
      const int64_t count = std::min(kMostElements, rows.count - first);
      if (p < steps.count) {
        Read(Line(layout_, matrix, steps.first + p),
             {rows.first + first, count}, plane, elements.data());
      }
      for (int64_t i = 0; i < count; ++i) {
        Put(elements[i], to + (first + i) * depth_ + p);
      }
    }
  }
}

void Panels::PackPanel(const char* matrix, Range columns, Range steps,
                       int plane, int64_t stage, int64_t panel) {
  const int64_t to = PanelAt(stage, panel);
  Elements elements;
  if (layout_.order == jit::Order::kRowMajor) {
    for (int64_t p = 0; p < depth_; ++p) {
      elements.fill(0);
      if (p < steps.count) {
        Read(Line(layout_, matrix, steps.first + p), columns, plane,
             elements.data());
      }
      for (int64_t j = 0; j < kPanel; ++j)
        Put(elements[j], to + p * kPanel + j);
    }
    return;
  }
  for (int64_t j = 0; j < kPanel; ++j) {
    elements.fill(0);
    if (j < columns.count) {
      Read(Line(layout_, matrix, columns.first + j), steps, plane,
           elements.data());
    }
    for (int64_t p = 0; p < depth_; ++p) Put(elements[p], to + p * kPanel + j);
  }
}

Factors Panels::Rows(int64_t stage, int64_t row) const {
  const int64_t at = RowAt(stage, row);
  return {values_.data() + at, exponents_.data() + at, depth_};
}

Factors Panels::Panel(int64_t stage, int64_t panel) const {
  const int64_t at = PanelAt(stage, panel);
  return {values_.data() + at, exponents_.data() + at, kPanel};
}

}  // namespace gemmd::host
