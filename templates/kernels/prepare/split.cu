// The split form of f32: each matrix becomes three of bf16, the high, middle
// and low parts of its elements, whose sum is the element: all 24 bits of it
// unless that takes parts below the least subnormal of bf16 (2^-133).
//
// Parts are rounded to nearest. Where that would make a high part of a finite
// element infinite, it is truncated instead. The lower parts of infinities and
// NaNs are zero, so that products of them are what they were. Behind the last
// element of a written line, its last word holds zeros. Grid-stride: any grid
// will do.
#include "common/prepare.h"
#include "common/types.h"
#include "ptx/convert.h"
#include "ptx/grid.h"
#include "ptx/memory.h"
#include "ptx/thread.h"

namespace gemmd {

// Parts of two neighbouring elements, the first in the low half.
struct SplitPair {
  uint32 plane[kSplitPlanes];
};

constexpr uint32 kExponent = 0x7f80;  // Of a bf16: that of infinity.

// The high part: `rounded`, or `bits` truncated where only rounding made it
// infinite. Both are halves of an element of 32 bits.
uint32 HighPart(uint32 rounded, uint32 bits) {
  const bool overflows =
      (rounded & kExponent) == kExponent && (bits & kExponent) != kExponent;
  return overflows ? bits : rounded;
}

SplitPair Split(uint32 first, uint32 second) {
  const uint32 rounded =
      ptx::Pack<BFloat16>(ptx::AsFloat(first), ptx::AsFloat(second));
  const uint32 high = HighPart(rounded & 0xffff, first >> 16) |
                      HighPart(rounded >> 16, second >> 16) << 16;
  // What a part leaves is exact in f32.
  const ptx::Pair taken = ptx::Unpack<BFloat16>(high);
  const bool first_ends = (first >> 16 & kExponent) == kExponent;
  const bool second_ends = (second >> 16 & kExponent) == kExponent;
  const float left_first =
      first_ends ? 0.0f : ptx::AsFloat(first) - taken.first;
  const float left_second =
      second_ends ? 0.0f : ptx::AsFloat(second) - taken.second;
  const uint32 middle = ptx::Pack<BFloat16>(left_first, left_second);
  const ptx::Pair taken_too = ptx::Unpack<BFloat16>(middle);
  return {{high, middle,
           ptx::Pack<BFloat16>(left_first - taken_too.first,
                               left_second - taken_too.second)}};
}

// Elements [column, column + 8) of a line at `from`.
void SplitWord(const PrepareArguments& a, const char* from, int64 column,
               char* to) {
  constexpr int kPerWord = sizeof(ptx::Word) / sizeof(float);
  ptx::Word planes[kSplitPlanes];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64 at = column + half * kPerWord;
    ptx::Word word = {};
    if (at < a.width) {
      word = ptx::LoadStreaming(
          reinterpret_cast<const ptx::Word*>(from + at * sizeof(float)));
    }
#pragma unroll
    for (int i = 0; i < kPerWord; ++i) {
      if (at + i >= a.width) word.part[i] = 0;
    }
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const SplitPair parts =
          Split(word.part[2 * pair], word.part[2 * pair + 1]);
#pragma unroll
      for (int plane = 0; plane < kSplitPlanes; ++plane) {
        planes[plane].part[2 * half + pair] = parts.plane[plane];
      }
    }
  }
#pragma unroll
  for (int plane = 0; plane < kSplitPlanes; ++plane) {
    *reinterpret_cast<ptx::Word*>(to + plane * a.to_matrix) = planes[plane];
  }
}

void SplitAll(const PrepareArguments& a, int64 first, int64 step) {
  const int64 words_per_line = PiecesOf(a.width, kSplitElements);
  const int64 words = words_per_line * a.lines * a.matrices;
  for (int64 i = first; i < words; i += step) {
    const int64 word = i % words_per_line;
    const int64 line = i / words_per_line;  // Of all matrices.
    const int64 matrix = line / a.lines;
    const int64 line_in = line % a.lines;
    SplitWord(a,
              static_cast<const char*>(a.from) + matrix * a.from_matrix +
                  line_in * a.from_pitch,
              word * kSplitElements,
              static_cast<char*>(a.to) + matrix * kSplitPlanes * a.to_matrix +
                  line_in * a.to_pitch + word * int64{sizeof(ptx::Word)});
  }
}

}  // namespace gemmd

extern "C" __global__ void __launch_bounds__(gemmd::kPrepareThreads)
    gemmd_kernel(const __grid_constant__ gemmd::PrepareArguments arguments) {
  using namespace gemmd;
  ptx::LaunchDependents();
  ptx::WaitForDependencies();
  SplitAll(arguments,
           int64{ptx::CtaIndex()} * kPrepareThreads + ptx::ThreadIndex(),
           int64{ptx::CtaCount()} * kPrepareThreads);
}
