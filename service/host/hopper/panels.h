// Blocks of A and B as the arithmetic of hopper/add.h takes them: stages of k,
// rows of A one behind the other, columns of B in panels. What a stage lacks of
// its depth, and a panel of its width, is zero. Thread-compatible.
#ifndef GEMMD_SERVICE_HOST_HOPPER_PANELS_H_
#define GEMMD_SERVICE_HOST_HOPPER_PANELS_H_

#include <cstdint>

#include "jit/problem/layout.h"
#include "service/host/block.h"
#include "service/host/elements.h"
#include "service/host/hopper/add.h"
#include "service/host/hopper/aligned.h"

namespace gemmd::host {

// A stage of k: `steps` from `first` on, of one plane of split f32.
struct Stage {
  Range steps;
  int a_plane = 0;
  int b_plane = 0;
  bool ends_sums = true;  // Where sums are promoted: behind it.
};

// How elements of an operand become factors.
struct FactorReading {
  Reading reading = Reading::kExact;
  bool splits = false;      // f32, of which one plane is read.
  bool takes_ones = false;  // For what is not finite (non_finite.h).
  int least = 0;            // Least exponent of the factors.
};

// Lines of one operand, in stages of `depth` steps of k.
class Panels {
 public:
  Panels(const jit::MatrixLayout& layout, FactorReading reading, int64_t depth)
      : layout_(layout), reading_(reading), depth_(depth) {}

  // Makes room for that many stages of `lines` rows of A, or columns of B,
  // whole panels of them.
  void Resize(int64_t stages, int64_t lines);

  // Rows of A of one stage.
  void PackRows(const char* matrix, Range rows, Range steps, int plane,
                int64_t stage, int64_t to_row);
  // A panel of B of one stage; `columns` are at most kPanel.
  void PackPanel(const char* matrix, Range columns, Range steps, int plane,
                 int64_t stage, int64_t panel);

  Factors Rows(int64_t stage, int64_t row) const;
  Factors Panel(int64_t stage, int64_t panel) const;

 private:
  // Elements [first, first + count) of a line, as factors without exponents.
  void Read(const char* line, Range elements, int plane, double* to) const;
  void Put(double value, int64_t at);
  int64_t RowAt(int64_t stage, int64_t row) const {
    return (stage * lines_ + row) * depth_;
  }
  int64_t PanelAt(int64_t stage, int64_t panel) const {
    return RowAt(stage, panel * kPanel);
  }

  const jit::MatrixLayout layout_;
  const FactorReading reading_;
  const int64_t depth_;
  int64_t lines_ = 0;
  Aligned<double> values_;
  Aligned<int16_t> exponents_;
};

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_HOPPER_PANELS_H_
