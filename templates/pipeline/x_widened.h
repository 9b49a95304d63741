// An X of weights, which are widened to the instruction's type in the registers
// that it takes X from. The sums of a group are multiplied by its scale: sum.h.
#pragma once

#include "common/arguments.h"
#include "common/tiling.h"
#include "common/types.h"
#include "pipeline/widening.h"
#include "ptx/convert.h"
#include "ptx/fence.h"
#include "ptx/shared.h"
#include "ptx/thread.h"
#include "ptx/tma.h"
#include "ptx/wgmma.h"

namespace gemmd {

template <IsConfig C, typename Instruction = ptx::Wgmma>
class WidenedX {
 public:
  using Registers = typename Instruction::Register[Instruction::kRegisters];
  using Element = typename C::XElement;
  using Widens = Widening<typename C::Weight, Element, C::kZeroPoints>;
  static constexpr int kBits = 4 * Widens::kWords;
  static constexpr int kBlocks = C::kTileM / kInstructionM;
  static constexpr int kFragmentBytes =
      FragmentLines(kBits) * kFragmentLineBytes;
  static constexpr int kGroupBytes =
      StageGroupBytes(C::kStageGroups, C::kZeroPoints);
  static constexpr int kBytes =
      WidenedTileBytes(kBits, C::kStageGroups, C::kZeroPoints, C::kTileM);
  static constexpr int kLoadBytes = kBlocks * (kFragmentBytes + kGroupBytes);
  // Of a stage, with scales of their own.
  static constexpr int kParts = C::kStageGroups == 2 ? 2 : 1;

  static void Load(uint32 to, const Arguments& arguments, int line, int stage,
                   int matrix, uint32 barrier) {
    const int block = line / kInstructionM;
    const Weights& weights = arguments.weights;
    ptx::LoadBox(to, &arguments.x, 0,
                 (stage * weights.blocks + block) * FragmentLines(kBits),
                 matrix, barrier);
    if constexpr (C::kStageGroups != 0) {
      const int groups = stage >> weights.stage_shift;
      ptx::LoadBox(to + kBlocks * kFragmentBytes, &arguments.metadata, 0,
                   (groups * weights.blocks + block) * C::kStageGroups, matrix,
                   barrier);
    }
  }

  static void Acquire(const Arguments& arguments) {
    ptx::AcquireTensorMap(&arguments.x);
    if constexpr (C::kStageGroups != 0) {
      ptx::AcquireTensorMap(&arguments.metadata);
    }
  }

  WidenedX(uint32 at, int block)
      : fragments_(at + block * kFragmentBytes +
                   ptx::ThreadIndex() % kWarpgroupThreads * 16),
        groups_(at + kBlocks * kFragmentBytes + block * kGroupBytes) {}

  void Fetch(uint32 unknown_zero) {
    const int thread = ptx::ThreadIndex() % kWarpgroupThreads;
    const int row = thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int block = 0; block < Tiling<C>::kBlocks; ++block) {
      uint32 weights[4 * Widens::kWords];
#pragma unroll
      for (int i = 0; i < Widens::kWords; ++i) {
        ptx::LoadSharedWords(
            fragments_ + block * kFragmentBytes + i * kWarpgroupThreads * 16,
            weights + 4 * i);
      }
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        uint32 zero[2];
        FetchGroup(block, part, row, zero);
#pragma unroll
        for (int i = 0; i < kPartSteps; ++i) {
          const int step = part * kPartSteps + i;
          Widens::To(x_[block][step], weights + step * Widens::kWords, zero,
                     unknown_zero);
        }
      }
    }
  }

  void Issue(Registers& sums, int block, int step, uint64 y,
             int accumulates) const {
    Instruction::Issue(sums, x_[block][step], y, accumulates);
  }

  // Once the instructions have ended.
  void Hold(uint32 unknown_zero) const {
#pragma unroll
    for (int block = 0; block < Tiling<C>::kBlocks; ++block) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        ptx::Hold(x_[block][step], unknown_zero);
      }
    }
  }

  // Of the rows r and r + 8 that a thread has of a block.
  float scale(int block, int part, int half) const {
    return scales_[block][part][half];
  }

 private:
  static_assert(!kWidens<C> || C::kGroupsInFlight == 0,
                "the next stage's fragments come to the same registers");
  static constexpr int kSteps = Tiling<C>::kSteps;
  static constexpr int kPartSteps = kSteps / kParts;

  void FetchGroup(int block, int part, int row, uint32 (&zero)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float point = Widens::kZeroBase;
      if constexpr (C::kStageGroups != 0) {
        const uint32 at = groups_ + block * kGroupBytes +
                          part * GroupWords(C::kZeroPoints) * 4;
        ptx::LoadShared(at + (row + 8 * half) * 4, scales_[block][part][half]);
        if constexpr (C::kZeroPoints) {
          S8 given;
          ptx::LoadShared(at + kInstructionM * 4 + row + 8 * half, given);
          point += ptx::Widen(given);
        }
      }
      zero[half] = ptx::Pack<Element>(point, point);
    }
  }

  uint32 fragments_;
  uint32 groups_;
  uint32 x_[Tiling<C>::kBlocks][kSteps][4];
  float scales_[Tiling<C>::kBlocks][kParts][2];
};

}  // namespace gemmd
