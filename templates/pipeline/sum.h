// How a consumer warpgroup keeps the sums of its rows of a tile.
//
// Fragment of wgmma m64nN (PTX ISA, "Accumulator D"): warp w, lane l holds, for
// the group of 8 columns g, elements 4g + {0, 1} at row 16w + l/4, columns
// 8g + 2(l%4) + {0, 1}, and elements 4g + {2, 3} eight rows further down. f16
// sums lie in pairs in one register.
#pragma once

#include "common/arguments.h"
#include "common/tiling.h"
#include "common/types.h"
#include "pipeline/x_source.h"
#include "ptx/convert.h"
#include "ptx/math.h"
#include "ptx/wgmma.h"
#include "scheduler/work.h"

namespace gemmd {

// What a thread has of a group of columns: two rows, eight apart, by two
// neighbouring columns.
template <typename V>
struct Patch {
  V at[2][2];
};

template <typename Sum>
Patch<Sum> PatchOf(const Sum* elements, int group) {
  const Sum* e = elements + 4 * group;
  return {{{e[0], e[1]}, {e[2], e[3]}}};
}

inline Patch<float> PatchOf(const uint32* pairs, int group) {
  const ptx::Pair above = ptx::Unpack<Float16>(pairs[2 * group]);
  const ptx::Pair below = ptx::Unpack<Float16>(pairs[2 * group + 1]);
  return {{{above.first, above.second}, {below.first, below.second}}};
}

// In the tensor core's own arithmetic, from the first product to the last.
template <IsConfig C>
class DirectSum {
 public:
  static constexpr int kGroupsInFlight = C::kGroupsInFlight;

  void Locate(const Arguments&, const Unit&, int) {}
  void Begin() {}
  void BeginStage(int, int) {}
  // Parts of a stage that are added up apart.
  static constexpr int kParts = 1;
  // What an instruction, the `step`-th of a part, adds to, and whether it does
  // or begins anew.
  Registers& Target(int block) { return registers_[block]; }
  int Accumulates(int stage, int step) const { return stage + step; }
  // The products of a part of a stage, whose X is given, have been added.
  template <typename X>
  void EndPart(const X&, int) {}

  // All of a block.
  Registers& Total(int block) { return registers_[block]; }

  Patch<typename C::Sum> At(int block, int group) const {
    return PatchOf(registers_[block], group);
  }

 private:
  Registers registers_[Tiling<C>::kBlocks];
};

// The tensor core adds up one stage, 128 bytes of k; the sums of stages are
// added in f32 in ascending order. For 8-bit floats, whose sums the tensor
// core keeps with 14 bits.
template <IsConfig C>
class PromotedSum {
 public:
  static constexpr int kGroupsInFlight = 0;

  void Locate(const Arguments&, const Unit&, int) {}
  // Sets the tensor core's own registers too, which it overwrites, so that
  // none of them is kept during the epilogue.
  void Begin() {
#pragma unroll
    for (int block = 0; block < Tiling<C>::kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < ptx::Wgmma::kRegisters; ++i) {
        totals_[block][i] = registers_[block][i] = 0.0f;
      }
    }
  }
  void BeginStage(int, int) {}
  static constexpr int kParts = 1;
  Registers& Target(int block) { return registers_[block]; }
  int Accumulates(int, int step) const { return step; }
  template <typename X>
  void EndPart(const X&, int) {
#pragma unroll
    for (int block = 0; block < Tiling<C>::kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < ptx::Wgmma::kRegisters; ++i) {
        totals_[block][i] += registers_[block][i];
      }
    }
  }

  Registers& Total(int block) { return totals_[block]; }

  Patch<float> At(int block, int group) const {
    return PatchOf(totals_[block], group);
  }

 protected:
  Registers registers_[Tiling<C>::kBlocks];
  float totals_[Tiling<C>::kBlocks][ptx::Wgmma::kRegisters];
};

// Promoted sums of which each stage, 128 of k, has scales of its own.
template <IsConfig C>
class BlockScaledSum : public PromotedSum<C> {
 public:
  using T = Tiling<C>;
  static_assert(!C::kBlockScaled || kScaleLines % C::kTileN == 0,
                "one scale of Y holds for all columns of a tile");

  // Before the sums of a unit, of which this thread has `row` of the tile and
  // others.
  void Locate(const Arguments& arguments, const Unit& unit, int row) {
    const BlockScales& scales = arguments.scales;
    step_ = static_cast<int>(arguments.splits.value);
    y_step_ = step_ * scales.y_pitch;
    y_ =
        scales.y + unit.split * scales.y_pitch + unit.tile.column / kScaleLines;
#pragma unroll
    for (int block = 0; block < T::kBlocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int line = unit.tile.row + row + kInstructionM * block + 8 * half;
        x_[block][half] =
            scales.x + Min(line, arguments.epilogue.rows - 1) * scales.x_pitch +
            unit.split;
      }
    }
  }

  // Fetches the stage's scales, while it is awaited.
  void BeginStage(int stage, int) {
    const float y = y_[stage * y_step_];
#pragma unroll
    for (int block = 0; block < T::kBlocks; ++block) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        factors_[block][half] = x_[block][half][stage * step_] * y;
      }
    }
  }

  template <typename X>
  void EndPart(const X&, int) {
#pragma unroll
    for (int block = 0; block < T::kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < ptx::Wgmma::kRegisters; ++i) {
        float& total = this->totals_[block][i];
        total = ptx::MultiplyAdd(factors_[block][i / 2 % 2],
                                 this->registers_[block][i], total);
      }
    }
  }

 private:
  const float* x_[T::kBlocks][2];
  const float* y_;
  int step_;  // Stages from one of the unit's to the next.
  int64 y_step_;
  float factors_[T::kBlocks][2];
};

// Promoted sums of weights, by the scales of their groups, which X has: of a
// whole group where its stages follow each other, else of each of its stages;
// those of interleaved consumers never do.
template <IsConfig C>
class GroupScaledSum : public PromotedSum<C> {
 public:
  static constexpr int kParts = C::kStageGroups;
  static constexpr bool kEach = kParts == 2 || Tiling<C>::kInterleaved;

  void Locate(const Arguments& arguments, const Unit&, int) {
    mask_ = arguments.weights.promoted_stages - 1;
  }
  void BeginStage(int stage, int last) {
    of_group_ = stage & mask_;
    ends_ = of_group_ == mask_ || stage == last;
  }
  int Accumulates(int, int step) const {
    return (Tiling<C>::kInterleaved ? 0 : of_group_) + step;
  }

  template <typename X>
  void EndPart(const X& x, int part) {
    if (!kEach && !ends_) return;
#pragma unroll
    for (int block = 0; block < Tiling<C>::kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < ptx::Wgmma::kRegisters; ++i) {
        float& total = this->totals_[block][i];
        total = ptx::MultiplyAdd(x.scale(block, part, i / 2 % 2),
                                 this->registers_[block][i], total);
      }
    }
  }

 private:
  int mask_;
  int of_group_;
  bool ends_;
};

template <IsConfig C>
using SumOf = If<C::kStageGroups != 0, GroupScaledSum<C>,
                 If<C::kBlockScaled, BlockScaledSum<C>,
                    If<C::kPromoted, PromotedSum<C>, DirectSum<C>>>>;

}  // namespace gemmd
