// Counts the set bits of every line of X and of Y. What lies behind a line's
// last byte does not count. A warp counts a line; grid-stride.
#include "common/arguments.h"
#include "common/types.h"
#include "ptx/grid.h"
#include "ptx/memory.h"
#include "ptx/reduce.h"
#include "ptx/thread.h"

namespace gemmd {

constexpr int kWarpThreads = 32;

// By all lanes of a warp.
int CountLine(const LineBits& bits, int64 line, int lane) {
  constexpr int kPartBytes = sizeof(uint32);
  constexpr int kWordBytes = sizeof(ptx::Word);
  const char* const from =
      static_cast<const char*>(bits.from) + line * bits.pitch;
  uint32 count = 0;
  for (int64 at = lane * kWordBytes; at < bits.width;
       at += kWarpThreads * kWordBytes) {
    const ptx::Word word =
        ptx::Load(reinterpret_cast<const ptx::Word*>(from + at));
#pragma unroll
    for (int i = 0; i < kWordBytes / kPartBytes; ++i) {
      const int64 left = bits.width - at - i * kPartBytes;  // Bytes.
      if (left >= kPartBytes) {
        count += ptx::SetBits(word.part[i]);
      } else if (left > 0) {
        count += ptx::SetBits(word.part[i] & ((1u << 8 * left) - 1));
      }
    }
  }
  ptx::SyncWarp();
  return static_cast<int>(ptx::SumOfWarp(count));
}

void CountLines(const LineBitsArguments& arguments, int64 first, int64 step,
                int lane) {
  const LineBits& x = arguments.x;
  const LineBits& y = arguments.y;
  for (int64 i = first; i < x.lines + y.lines; i += step) {
    const bool of_x = i < x.lines;
    const LineBits& bits = of_x ? x : y;
    const int64 line = of_x ? i : i - x.lines;
    const int count = CountLine(bits, line, lane);
    if (lane == 0) bits.to[line] = count;
  }
}

}  // namespace gemmd

extern "C" __global__ void __launch_bounds__(gemmd::kLineBitsThreads)
    gemmd_line_bits(const __grid_constant__ gemmd::LineBitsArguments arguments) {
  using namespace gemmd;
  constexpr int kWarps = kLineBitsThreads / kWarpThreads;
  ptx::LaunchDependents();
  ptx::WaitForDependencies();
  const int thread = ptx::ThreadIndex();
  CountLines(arguments, int64{ptx::CtaIndex()} * kWarps + thread / kWarpThreads,
             int64{ptx::CtaCount()} * kWarps, thread % kWarpThreads);
}
