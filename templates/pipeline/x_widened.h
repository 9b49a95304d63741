// An X of weights, which become elements of the instruction's type in the
// registers that it takes X from. Integers are widened exactly, their zero
// points subtracted; the sums of a group are multiplied by its scale (sum.h).
//
// Small integers are widened by putting them into the mantissa of a power of
// two, whose last bit then counts ones, and subtracting that power.
#pragma once

#include "common/arguments.h"
#include "common/tiling.h"
#include "common/types.h"
#include "ptx/convert.h"
#include "ptx/permute.h"
#include "ptx/shared.h"
#include "ptx/thread.h"
#include "ptx/tma.h"
#include "ptx/wgmma.h"

namespace gemmd {

// A number in both halves of a register, and such a power of two.
constexpr uint32 Twice(uint32 half) { return half << 16 | half; }
template <typename Element>
inline constexpr uint32 kPower = kSame<Element, BFloat16> ? 0x4300 : 0x6400;
template <typename Element>
inline constexpr float kPowerValue = kSame<Element, BFloat16> ? 128 : 1024;

// How elements of From are widened. To() widens what a thread has of an
// instruction's X: `weights` holds the elements of its four registers
// (kernels/prepare/fragments.cu), `zero` the zero points of rows r and r + 8,
// both halves kZeroBase more.
template <typename From, typename Element, bool kZeroPoints>
struct Widening;

template <typename Element, bool kZeroPoints>
struct Widening<U4, Element, kZeroPoints> {
  static constexpr int kWords = 1;  // For an instruction.
  static constexpr float kZeroBase = kPowerValue<Element>;

  static void To(uint32 (&x)[4], const uint32* weights,
                 const uint32 (&zero)[2], uint32 unknown_zero) {
    // Not a constant: one instruction takes no two of them.
    const uint32 power = Twice(kPower<Element>) ^ unknown_zero;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32 raised = (weights[0] >> 4 * i & Twice(0xf)) ^ power;
      x[i] = ptx::Subtract<Element>(
          raised, kZeroPoints ? zero[i % 2] : Twice(kPower<Element>));
    }
  }
};

// Two's complement with its sign flipped counts from the least.
template <typename Element, bool kZeroPoints>
struct Widening<S4, Element, kZeroPoints> {
  static constexpr int kWords = 1;
  static constexpr float kZeroBase = 0;

  static void To(uint32 (&x)[4], const uint32* weights,
                 const uint32 (&zero)[2], uint32 unknown_zero) {
    constexpr uint32 kLeast = Twice(kPower<Element> | 8);
    const uint32 least = kLeast ^ unknown_zero;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32 raised = (weights[0] >> 4 * i & Twice(0xf)) ^ least;
      x[i] = ptx::Subtract<Element>(raised, kLeast);
      if constexpr (kZeroPoints) {
        x[i] = ptx::Subtract<Element>(x[i], zero[i % 2]);
      }
    }
  }
};

// The pair of bytes of register i, each in a half of a register.
inline uint32 BytesOf(const uint32* weights, int i) {
  return ptx::PermuteBytes(weights[i / 2], 0, i % 2 == 0 ? 0x4140 : 0x4342);
}

template <bool kZeroPoints>
struct Widening<S8, Float16, kZeroPoints> {
  static constexpr int kWords = 2;
  static constexpr float kZeroBase = 0;

  static void To(uint32 (&x)[4], const uint32* weights, const uint32 (&)[2],
                 uint32) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      constexpr uint32 kSign = 0x80;
      x[i] = ptx::Subtract<Float16>(
          BytesOf(weights, i) ^ Twice(kPower<Float16> | kSign),
          Twice(kPower<Float16> | kSign));
    }
  }
};

// Seven bits fit the mantissa. The sign, at the exponent's last bit, doubles
// the power that is subtracted.
template <bool kZeroPoints>
struct Widening<S8, BFloat16, kZeroPoints> {
  static constexpr int kWords = 2;
  static constexpr float kZeroBase = 0;

  static void To(uint32 (&x)[4], const uint32* weights, const uint32 (&)[2],
                 uint32 unknown_zero) {
    const uint32 power = Twice(kPower<BFloat16>) ^ unknown_zero;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32 bytes = BytesOf(weights, i);
      x[i] = ptx::Subtract<BFloat16>(bytes & Twice(0x7f) ^ power,
                                     bytes & Twice(0x80) ^ power);
    }
  }
};

template <typename Element, bool kZeroPoints>
struct Widening<E4m3, Element, kZeroPoints> {
  static constexpr int kWords = 2;
  static constexpr float kZeroBase = 0;

  static void To(uint32 (&x)[4], const uint32* weights, const uint32 (&)[2],
                 uint32) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = ptx::WidenPair<Element>(weights[i / 2] >> 16 * (i % 2));
    }
  }
};

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
  static constexpr int kBytes = WidenedTileBytes(
      kBits, C::kStageGroups, C::kZeroPoints, C::kTileM);
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
        ptx::LoadSharedWords(fragments_ + block * kFragmentBytes +
                                 i * kWarpgroupThreads * 16,
                             weights + 4 * i);
      }
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        uint32 zero[2];
        FetchGroup(block, part, row, zero);
#pragma unroll
        for (int i = 0; i < kPartSteps; ++i) {
          const int step = part * kPartSteps + i;
          Widens::To(x_[block][step], weights + step * Widens::kWords,
                       zero, unknown_zero);
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
      for (int step = 0; step < kSteps; ++step) ptx::Hold(x_[block][step], unknown_zero);
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
        ptx::LoadShared(at + (row + 8 * half) * 4,
                        scales_[block][part][half]);
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
