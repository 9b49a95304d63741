// Where the instruction's X comes from: how a stage's part of it is brought to
// shared memory, and how instructions take it from there. The kernel uses one
// of three types with the same members:
//
//   kBytes, kLoadBytes            of a stage: reserved, and brought
//   Load(to, arguments, ...)      brings lines [line, line + kTileM)
//   Acquire(arguments)            its tensor maps, of a grouped launch
//   X x(at, block)                a stage's at `at`, from a block of 64 lines
//   x.Fetch(unknown_zero)         what registers take once the stage is there
//   x.Issue(sums, block, step, y, accumulates)
//   x.Hold(unknown_zero)          once instructions have ended; see ptx::Hold
#pragma once

#include "common/arguments.h"
#include "common/tiling.h"
#include "common/types.h"
#include "pipeline/operand_tile.h"
#include "pipeline/x_widened.h"
#include "ptx/fence.h"
#include "ptx/shared.h"
#include "ptx/thread.h"
#include "ptx/tma.h"
#include "ptx/wgmma.h"

namespace gemmd {

using Registers = ptx::Wgmma::Register[ptx::Wgmma::kRegisters];

template <IsConfig C, typename Instruction = ptx::Wgmma>
class DenseX {
 public:
  using Tile = OperandTile<typename C::XElement, C::kXMajor, C::kTileM>;
  static constexpr int kBytes = Tile::kBytes;
  static constexpr int kLoadBytes = kBytes;

  static void Load(uint32 to, const Arguments& arguments, int line, int stage,
                   int matrix, uint32 barrier) {
    Tile::Load(to, &arguments.x, line, stage, matrix, barrier);
  }

  static void Acquire(const Arguments& arguments) {
    ptx::AcquireTensorMap(&arguments.x);
  }

  DenseX(uint32 at, int block)
      : descriptor_(Tile::Descriptor(at) + Tile::Offset(block, 0)) {}

  void Fetch(uint32) {}
  void Hold(uint32) const {}

  void Issue(Registers& sums, int block, int step, uint64 y,
             int accumulates) const {
    Instruction::Issue(sums, descriptor_ + Tile::Offset(block, step), y,
                       accumulates);
  }

 private:
  uint64 descriptor_;
};

// Half of the elements, and metadata that say which. The planner's derived
// operand holds them as the instruction wants them: for each stage and block of
// 64 lines, kWords words for each of 128 threads.
template <IsConfig C, typename Instruction = ptx::Wgmma>
class SparseX {
 public:
  using Tile = OperandTile<typename C::XElement, C::kXMajor, C::kTileM,
                           kSparseSpanBytes>;
  static constexpr int kBits = 8 * sizeof(typename C::XElement);
  static constexpr int kWords = MetadataWords(kBits);
  static constexpr int kBlockBytes = MetadataBytes(kBits, kInstructionM);
  static constexpr int kBytes = SparseTileBytes(kBits, C::kTileM);
  static constexpr int kLoadBytes =
      Tile::kBytes + MetadataBytes(kBits, C::kTileM);

  static void Load(uint32 to, const Arguments& arguments, int line, int stage,
                   int matrix, uint32 barrier) {
    Tile::Load(to, &arguments.x, line, stage, matrix, barrier);
    ptx::LoadBox(to + Tile::kBytes, &arguments.metadata,
                 stage * kWords * kWarpgroupThreads, line / kInstructionM,
                 matrix, barrier);
  }

  static void Acquire(const Arguments& arguments) {
    ptx::AcquireTensorMap(&arguments.x);
    ptx::AcquireTensorMap(&arguments.metadata);
  }

  SparseX(uint32 at, int block)
      : descriptor_(Tile::Descriptor(at) + Tile::Offset(block, 0)),
        from_(at + Tile::kBytes + block * kBlockBytes +
              ptx::ThreadIndex() % kWarpgroupThreads * kWords * 4) {}

  void Fetch(uint32) {
#pragma unroll
    for (int block = 0; block < Tiling<C>::kBlocks; ++block) {
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        ptx::LoadShared(from_ + block * kBlockBytes + word * 4,
                        metadata_[block][word]);
      }
    }
  }

  void Hold(uint32 unknown_zero) const {
#pragma unroll
    for (int block = 0; block < Tiling<C>::kBlocks; ++block) {
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        ptx::Hold(metadata_[block][word], unknown_zero);
      }
    }
  }

  // The tensor core reads metadata from registers until an instruction has
  // ended (seen on an H200), and the next stage's come to the same ones.
  static_assert(!C::kSparse || C::kGroupsInFlight == 0);

  // Two instructions share a word that only half of the threads of each give;
  // of 8-bit elements each takes a word of all threads.
  void Issue(Registers& sums, int block, int step, uint64 y,
             int accumulates) const {
    const uint64 x = descriptor_ + Tile::Offset(block, step);
    const int metadata = metadata_[block][step % kWords];
    if (kWords == 1 && step % 2 == 1) {
      Instruction::template Issue<1>(sums, x, y, metadata, accumulates);
    } else {
      Instruction::template Issue<0>(sums, x, y, metadata, accumulates);
    }
  }

 private:
  uint64 descriptor_;
  uint32 from_;
  int metadata_[Tiling<C>::kBlocks][kWords];
};

template <IsConfig C>
using XSource =
    If<C::kSparse, SparseX<C>, If<kWidens<C>, WidenedX<C>, DenseX<C>>>;

}  // namespace gemmd
