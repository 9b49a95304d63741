// Metadata of a sparse matrix in the order in which the threads of a warpgroup
// give them to wgmma.mma_async.sp. PTX ISA, "Matrix Fragments for
// wgmma.mma_async.sp". A chunk's four bits come from byte chunk / 2 of a line,
// the even chunk's from the lower half.
//
// Thread t of 128, of warp w and lane l, describes rows r = 16w + l/4 and r + 8
// of 64. An instruction multiplies eight chunks of a line, of 8-bit elements
// sixteen.
//
// 16 and 32 bits: lanes 0 and 1 of every four give the metadata of one
// instruction, lanes 2 and 3 those of the next: four chunks of row r in the
// lower half of the word, four of row r + 8 in the upper one; l % 2 says which
// four. So a word of all lanes serves the two instructions of a stage.
//
// 8 bits: a word holds eight chunks of one row, r where l is even, else r + 8;
// l / 2 % 2 says which eight. A stage has two instructions, so two words.
//
// Behind the last chunk, and in lines that are not there, stands a legal
// pattern; the elements that it describes are zeros.
#include "common/prepare.h"
#include "common/types.h"
#include "ptx/grid.h"
#include "ptx/thread.h"

namespace gemmd {

constexpr uint32 kAnyPattern = 0x4;
constexpr int kWords = MetadataWords(Config::kBits);
constexpr int kStageChunks = 16 * kWords;

// `count` chunks of a line from `first` on, an even one.
uint32 Chunks(const PrepareArguments& a, const unsigned char* matrix,
              int64 line, int64 first, int count) {
  uint32 chunks = 0;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    uint32 pattern = kAnyPattern;
    if (line < a.lines && first + i < a.width) {
      const uint32 byte = matrix[line * a.from_pitch + (first + i) / 2];
      pattern = byte >> 4 * (i % 2) & 0xf;
    }
    chunks |= pattern << 4 * i;
  }
  return chunks;
}

// The word of a thread.
uint32 Word(const PrepareArguments& a, const unsigned char* matrix,
            int64 first_line, int64 first_chunk, int word, int thread) {
  const int lane = thread % 32;
  const int64 line = first_line + 16 * (thread / 32) + lane / 4;
  const int odd = lane % 2;
  const int upper = lane / 2 % 2;
  if constexpr (Config::kBits == 8) {
    return Chunks(a, matrix, line + 8 * odd,
                  first_chunk + 16 * word + 8 * upper, 8);
  } else {
    const int64 chunk = first_chunk + 8 * upper + 4 * odd;
    return Chunks(a, matrix, line, chunk, 4) |
           Chunks(a, matrix, line + 8, chunk, 4) << 16;
  }
}

void ArrangeAll(const PrepareArguments& a, int64 first, int64 step,
                int thread) {
  const int64 stages = PiecesOf(a.width, kStageChunks);
  const int64 blocks = MetadataLines(a.lines);
  for (int64 i = first; i < stages * blocks * a.matrices; i += step) {
    const int64 stage = i % stages;
    const int64 block = i / stages % blocks;
    const int64 matrix = i / stages / blocks;
    const auto* from = static_cast<const unsigned char*>(a.from) +
                       matrix * a.from_matrix;
    auto* to = reinterpret_cast<uint32*>(static_cast<char*>(a.to) +
                                         matrix * a.to_matrix +
                                         block * a.to_pitch) +
               (stage * kPrepareThreads + thread) * kWords;
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      to[word] = Word(a, from, block * kInstructionM, stage * kStageChunks,
                      word, thread);
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
