// How a consumer warpgroup keeps the sums of its rows of a tile.
//
// Fragment of wgmma m64nN (PTX ISA, "Accumulator D"): warp w, lane l holds, for
// the group of 8 columns g, elements 4g + {0, 1} at row 16w + l/4, columns
// 8g + 2(l%4) + {0, 1}, and elements 4g + {2, 3} eight rows further down. f16
// sums lie in pairs in one register.
#pragma once

#include "common/tiling.h"
#include "common/types.h"
#include "ptx/convert.h"
#include "ptx/wgmma.h"

namespace gemmd {

// What a thread has of a group of columns: two rows, eight apart, by two
// neighbouring columns.
template <typename V>
struct Patch {
  V at[2][2];
};

using Registers = ptx::Wgmma::Register[ptx::Wgmma::kRegisters];

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

  void Begin() {}
  // What an instruction adds to, and whether it does or begins anew.
  Registers& Target(int block) { return registers_[block]; }
  static int Accumulates(int stage, int step) { return stage + step; }
  // A stage's products have been added.
  void EndStage() {}

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

  void Begin() {
#pragma unroll
    for (auto& block : totals_) {
#pragma unroll
      for (float& total : block) total = 0.0f;
    }
  }
  Registers& Target(int block) { return registers_[block]; }
  static int Accumulates(int, int step) { return step; }
  void EndStage() {
#pragma unroll
    for (int block = 0; block < Tiling<C>::kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < ptx::Wgmma::kRegisters; ++i) {
        totals_[block][i] += registers_[block][i];
      }
    }
  }

  Patch<float> At(int block, int group) const {
    return PatchOf(totals_[block], group);
  }

 private:
  Registers registers_[Tiling<C>::kBlocks];
  float totals_[Tiling<C>::kBlocks][ptx::Wgmma::kRegisters];
};

template <IsConfig C>
using SumOf = If<C::kPromoted, PromotedSum<C>, DirectSum<C>>;

}  // namespace gemmd
