// The transposed form: matrices of elements of Config::kBits bits (1, 8 or 32)
// become their transposes. Element i of a line of bits is bit i % 8 of byte
// i / 8.
//
// Every access is one word of 16 bytes (for bits, writes are of 4). The tile of
// a thread stays in its registers, so neither shared memory nor barriers are
// needed; neighbouring lanes complete each other's cache lines. Behind the last
// element of a written line, its last word holds zeros; of what is read there,
// nothing is used. Grid-stride: any grid will do.
#include "common/prepare.h"
#include "common/types.h"
#include "ptx/grid.h"
#include "ptx/memory.h"
#include "ptx/permute.h"
#include "ptx/thread.h"

namespace gemmd {

// Four words of four elements of 32 bits.
void TransposeTile(ptx::Word (&tile)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < i; ++j) {
      const uint32 kept = tile[i].part[j];
      tile[i].part[j] = tile[j].part[i];
      tile[j].part[i] = kept;
    }
  }
}

// The transpose of four times four bytes.
struct Bytes {
  uint32 line[4];
};
Bytes TransposeBytes(uint32 a, uint32 b, uint32 c, uint32 d) {
  const uint32 ab01 = ptx::PermuteBytes(a, b, 0x5140);
  const uint32 ab23 = ptx::PermuteBytes(a, b, 0x7362);
  const uint32 cd01 = ptx::PermuteBytes(c, d, 0x5140);
  const uint32 cd23 = ptx::PermuteBytes(c, d, 0x7362);
  return {{ptx::PermuteBytes(ab01, cd01, 0x5410),
           ptx::PermuteBytes(ab01, cd01, 0x7632),
           ptx::PermuteBytes(ab23, cd23, 0x5410),
           ptx::PermuteBytes(ab23, cd23, 0x7632)}};
}

// Sixteen words of sixteen bytes: blocks of four times four are transposed and
// change places.
void TransposeTile(ptx::Word (&tile)[16]) {
  const auto block = [&tile](int i, int j) {
    return TransposeBytes(tile[4 * i].part[j], tile[4 * i + 1].part[j],
                          tile[4 * i + 2].part[j], tile[4 * i + 3].part[j]);
  };
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j <= i; ++j) {
      const Bytes lower = block(i, j);
      const Bytes upper = block(j, i);
#pragma unroll
      for (int line = 0; line < 4; ++line) {
        tile[4 * i + line].part[j] = upper.line[line];
        tile[4 * j + line].part[i] = lower.line[line];
      }
    }
  }
}

// Thirty-two words of 128 bits: bits 32 p to 32 p + 31 of all lines become
// part p of the words, whose bits are the lines. Blocks of halving size change
// places (Warren, Hacker's Delight, 7-3).
void TransposeTile(ptx::Word (&tile)[32]) {
#pragma unroll
  for (int p = 0; p < 4; ++p) {
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
      const uint32 low = 0xffffffff / ((1u << half) + 1);
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        if (i & half) continue;
        uint32& first = tile[i].part[p];
        uint32& second = tile[i + half].part[p];
        const uint32 changed = (first >> half ^ second) & low;
        second ^= changed;
        first ^= changed << half;
      }
    }
  }
}

// Writes element `i` of the transposed tile's lines: as much as a thread's
// lines give.
template <int kBits>
void Store(const ptx::Word (&tile)[TransposeShape<kBits>::kLines], int i,
           char* to) {
  if constexpr (kBits == 1) {
    *reinterpret_cast<uint32*>(to) = tile[i % 32].part[i / 32];
  } else {
    *reinterpret_cast<ptx::Word*>(to) = tile[i];
  }
}

// The tile at word `word` of lines `line` and following.
template <int kBits>
void TransposeAt(const PrepareArguments& a, int64 matrix, int64 line,
                 int64 word) {
  using Shape = TransposeShape<kBits>;
  ptx::Word tile[Shape::kLines];
  const auto* from = reinterpret_cast<const ptx::Word*>(
      static_cast<const char*>(a.from) + matrix * a.from_matrix +
      line * a.from_pitch);
  const int64 step = a.from_pitch / int64{sizeof(ptx::Word)};
#pragma unroll
  for (int i = 0; i < Shape::kLines; ++i) {
    tile[i] = line + i < a.lines ? ptx::LoadStreaming(from + i * step + word)
                                 : ptx::Word{};
  }
  TransposeTile(tile);
  const int64 first = word * Shape::kElements;
  char* to = static_cast<char*>(a.to) + matrix * a.to_matrix +
             first * a.to_pitch + line * kBits / 8;
#pragma unroll
  for (int i = 0; i < Shape::kElements; ++i) {
    if (first + i < a.width) Store<kBits>(tile, i, to + i * a.to_pitch);
  }
}

template <int kBits>
void Transpose(const PrepareArguments& a) {
  using Shape = TransposeShape<kBits>;
  const int64 words = Shape::Words(a);
  const int64 groups = Shape::Groups(a);
  const int64 tiles = Shape::CtaTiles(a);
  const int64 word_tiles = PiecesOf(words, Shape::kCtaWords);

  const int lane = ptx::ThreadIndex() % 32;
  const int warp = ptx::ThreadIndex() / 32;
  const int across =
      warp % Shape::kWarpsAcross * Shape::kAcross + lane % Shape::kAcross;
  const int down =
      warp / Shape::kWarpsAcross * Shape::kDown + lane / Shape::kAcross;
  for (int64 i = ptx::CtaIndex(); i < tiles * a.matrices;
       i += ptx::CtaCount()) {
    const int64 tile = i % tiles;
    const int64 word = tile % word_tiles * Shape::kCtaWords + across;
    const int64 group = tile / word_tiles * Shape::kCtaGroups + down;
    if (word < words && group < groups) {
      TransposeAt<kBits>(a, i / tiles, group * Shape::kLines, word);
    }
  }
}

}  // namespace gemmd

extern "C" __global__ void __launch_bounds__(gemmd::kPrepareThreads)
    gemmd_kernel(const __grid_constant__ gemmd::PrepareArguments arguments) {
  using namespace gemmd;
  ptx::LaunchDependents();
  ptx::WaitForDependencies();
  Transpose<Config::kBits>(arguments);
}
