// Weights in fragment order: for every 64 lines and 64 of k, the words that 128
// threads widen to the registers of X. PTX ISA, "Register Fragments for
// wgmma.mma_async.m64nNk16": thread t, of warp w and lane l, has in register i
// of an instruction rows 16w + l/4 + 8 (i % 2) at k 2 (l % 4) + 8 (i / 2) and
// the next.
//
// Of 4 bits an instruction takes a word: nibbles i and i + 4 are the first and
// the second element of register i. Of 8 bits it takes two words: bytes 2i and
// 2i + 1.
// Words lie in fours, of 128 threads side by side.
//
// A stage has the fragments of all blocks of 64 lines, one behind the other.
// Behind the last stage come the groups: of each stage, or of as many stages as
// share them, those of all blocks. A group has 64 scales, then 64 zero points.
// What is not there is zero.
#include "common/prepare.h"
#include "common/types.h"
#include "ptx/grid.h"
#include "ptx/thread.h"

namespace gemmd {

constexpr int kBits = Config::kBits;
constexpr int kWordsOfStep = kBits / 4;
constexpr int kElements = 32 / kBits;  // Of a word.
constexpr int64 kBlockBytes = int64{FragmentLines(kBits)} * kFragmentLineBytes;

// Element k of a line, wherever lines run.
uint32 Weight(const PrepareArguments& a, const unsigned char* matrix,
              int64 line, int64 k) {
  if (line >= a.lines || k >= a.width) return 0;
  const int64 along = a.weights.along_k ? k : line;
  const unsigned char* from =
      matrix + (a.weights.along_k ? line : k) * a.from_pitch;
  if constexpr (kBits == 8) return from[along];
  return from[along / 2] >> 4 * (along % 2) & 0xf;
}

// The word numbered `word` of an instruction whose X begins at (line, k).
uint32 FragmentWord(const PrepareArguments& a, const unsigned char* matrix,
                    int64 line, int64 k, int word, int thread) {
  const int lane = thread % 32;
  line += 16 * (thread / 32) + lane / 4;
  k += 2 * (lane % 4);
  uint32 bits = 0;
#pragma unroll
  for (int at = 0; at < kElements; ++at) {
    const int i = kBits == 4 ? at % 4 : 2 * word + at / 2;
    const int second = kBits == 4 ? at / 4 : at % 2;
    bits |= Weight(a, matrix, line + 8 * (i % 2), k + 8 * (i / 2) + second)
            << kBits * at;
  }
  return bits;
}

// What a thread has of 64 lines in a stage.
void Arrange(const PrepareArguments& a, const unsigned char* matrix, char* to,
             int64 block, int64 stage, int thread) {
#pragma unroll
  for (int quad = 0; quad < kWordsOfStep; ++quad) {
    auto* words = reinterpret_cast<uint32*>(
        to + (quad * kPrepareThreads + thread) * 16);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int word = 4 * quad + i;
      words[i] = FragmentWord(
          a, matrix, block * kInstructionM,
          stage * kFragmentDepth + word / kWordsOfStep * 16,
          word % kWordsOfStep, thread);
    }
  }
}

// Four bytes that need not be aligned.
uint32 ScaleBits(const unsigned char* from) {
  return from[0] | from[1] << 8 | from[2] << 16 | from[3] << 24;
}

// The group numbered `group` of one of 64 lines.
void CopyGroup(const PrepareArguments& a, const unsigned char* matrix,
               char* to, int64 block, int64 group, int row) {
  const WeightGroups& weights = a.weights;
  const int64 line = block * kInstructionM + row;
  const bool given = line < a.lines && group < weights.groups;
  const unsigned char* from = matrix + line * a.from_pitch;
  reinterpret_cast<uint32*>(to)[row] =
      given ? ScaleBits(from + weights.scales_at + 4 * group) : 0;
  if (weights.zero_points_at == 0) return;
  to[4 * kInstructionM + row] =
      given ? static_cast<char>(from[weights.zero_points_at + group]) : 0;
}

void ArrangeAll(const PrepareArguments& a, int64 first, int64 step,
                int thread) {
  const WeightGroups& weights = a.weights;
  const int64 stages = PiecesOf(a.width, kFragmentDepth);
  const int64 blocks = MetadataLines(a.lines);
  const int64 group_bytes = 4 * GroupWords(weights.zero_points_at != 0);
  const int64 pieces = stages + weights.written;
  const int64 at_once = weights.stage_groups;
  for (int64 i = first; i < pieces * blocks * a.matrices; i += step) {
    const int64 piece = i % pieces;
    const int64 block = i / pieces % blocks;
    const int64 matrix = i / pieces / blocks;
    const auto* from =
        static_cast<const unsigned char*>(a.from) + matrix * a.from_matrix;
    char* to = static_cast<char*>(a.to) + matrix * a.to_matrix;
    if (piece < stages) {
      Arrange(a, from, to + (piece * blocks + block) * kBlockBytes, block,
              piece, thread);
    } else if (thread < kInstructionM) {
      const int64 group = piece - stages;
      CopyGroup(a, from,
                to + stages * blocks * kBlockBytes +
                    ((group / at_once * blocks + block) * at_once +
                     group % at_once) *
                        group_bytes,
                block, group, thread);
    }
  }
}

}  // namespace gemmd

extern "C" __global__ void __launch_bounds__(gemmd::kPrepareThreads)
    gemmd_kernel(const __grid_constant__ gemmd::PrepareArguments arguments) {
  using namespace gemmd;
  ptx::LaunchDependents();
  ptx::WaitForDependencies();
  ArrangeAll(arguments, ptx::CtaIndex(), ptx::CtaCount(), ptx::ThreadIndex());
}
