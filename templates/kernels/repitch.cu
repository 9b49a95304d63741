// Changes the pitch of a matrix: lines of bytes, `from_pitch` apart, are
// copied to lines `to_pitch` apart.
//
// Packing (to_pitch a multiple of 16): each thread makes aligned words of 16
// bytes out of the two aligned words that hold its source bytes. Bytes between
// a line's width and the end of its last word are unspecified.
// Unpacking (to_pitch equal to the width): each thread makes aligned words of
// the gapless destination byte by byte; meant for narrow lines.
//
// Both matrices start at multiples of 16 bytes, and the source is readable up to
// the next one. Grid-stride: any grid will do.
#include "common/arguments.h"
#include "common/types.h"
#include "ptx/grid.h"
#include "ptx/memory.h"
#include "ptx/thread.h"

namespace gemmd {

constexpr int kWordBytes = sizeof(ptx::Word);

// The 16 bytes that start `bytes` (0 to 15) into low:high.
ptx::Word Shift(const ptx::Word& low, const ptx::Word& high, uint32 bytes) {
  uint32 parts[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) parts[i] = i < 4 ? low.part[i] : high.part[i - 4];
#pragma unroll
  for (int i = 0; i < 6; ++i) parts[i] = bytes & 8 ? parts[i + 2] : parts[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) parts[i] = bytes & 4 ? parts[i + 1] : parts[i];
  ptx::Word word;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    word.part[i] = ptx::FunnelShift(parts[i], parts[i + 1], bytes % 4 * 8);
  }
  return word;
}

void Pack(const RepitchArguments& a, int64 first, int64 step) {
  const int64 words_per_line = (a.width + kWordBytes - 1) / kWordBytes;
  const int64 words = words_per_line * a.lines;
  for (int64 i = first; i < words; i += step) {
    const int64 line = i / words_per_line;
    const int64 column = i % words_per_line * kWordBytes;
    const int64 start = line * a.from_pitch + column;
    const int64 last = start + Min(a.width - column, int64{kWordBytes}) - 1;
    const auto* from = static_cast<const ptx::Word*>(a.from);
    const ptx::Word low = ptx::LoadStreaming(from + start / kWordBytes);
    const ptx::Word high = ptx::LoadStreaming(from + last / kWordBytes);
    const ptx::Word word = Shift(low, high, start % kWordBytes);
    auto* to = static_cast<char*>(a.to) + line * a.to_pitch + column;
    *reinterpret_cast<ptx::Word*>(to) = word;
  }
}

void Unpack(const RepitchArguments& a, int64 first, int64 step) {
  const int64 bytes = a.width * a.lines;
  const auto* from = static_cast<const unsigned char*>(a.from);
  auto* to = static_cast<unsigned char*>(a.to);
  for (int64 i = first * kWordBytes; i < bytes; i += step * kWordBytes) {
    int64 line = i / a.width;
    int64 column = i % a.width;
    ptx::Word word = {};
#pragma unroll
    for (int byte = 0; byte < kWordBytes; ++byte) {
      if (line < a.lines) {
        const uint32 value = from[line * a.from_pitch + column];
        word.part[byte / 4] |= value << (byte % 4 * 8);
      }
      if (++column == a.width) {
        column = 0;
        ++line;
      }
    }
    if (i + kWordBytes <= bytes) {
      *reinterpret_cast<ptx::Word*>(to + i) = word;
      continue;
    }
#pragma unroll
    for (int byte = 0; byte < kWordBytes; ++byte) {
      if (i + byte < bytes) to[i + byte] = word.part[byte / 4] >> byte % 4 * 8;
    }
  }
}

}  // namespace gemmd

extern "C" __global__ void __launch_bounds__(gemmd::kRepitchThreads)
    gemmd_kernel(const __grid_constant__ gemmd::RepitchArguments arguments) {
  using namespace gemmd;
  ptx::LaunchDependents();
  ptx::WaitForDependencies();
  const int64 first =
      int64{ptx::CtaIndex()} * kRepitchThreads + ptx::ThreadIndex();
  const int64 step = int64{ptx::CtaCount()} * kRepitchThreads;
  if (arguments.to_pitch % kWordBytes == 0) {
    Pack(arguments, first, step);
  } else {
    Unpack(arguments, first, step);
  }
}
