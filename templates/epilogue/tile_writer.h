// Writes a warpgroup's sums to D, slab by slab through a ring of buffers: while
// the copy engine stores one, the next is filled. When the config stages C, each
// slab of C lands in the buffer that its slab of D leaves from, fetched as far
// ahead as there are buffers. A config with an auxiliary output makes every slab
// twice.
//
// Used by all 128 threads of one consumer warpgroup; one elected thread of its
// first warp talks to the copy engine.
#pragma once

#include "common/arguments.h"
#include "common/tiling.h"
#include "epilogue/finish.h"
#include "epilogue/slab.h"
#include "pipeline/sum.h"
#include "ptx/barrier.h"
#include "ptx/fence.h"
#include "ptx/thread.h"
#include "ptx/tma.h"
#include "scheduler/work.h"

namespace gemmd {

template <IsConfig C>
class TileWriter {
 public:
  using T = Tiling<C>;
  static constexpr int kBuffers = C::kSlabBuffers;
  static constexpr int kStagingBytes = kBuffers * T::kSlabBytes;
  static constexpr int kBarrierBytes = kBuffers * 8;

  // `staging` and `barriers` belong to this warpgroup, number `consumer`.
  TileWriter(uint32 staging, uint32 barriers, int consumer, int warp, int lane)
      : staging_(staging),
        barriers_(barriers),
        consumer_(consumer),
        warp_(warp),
        lane_(lane) {}

  // Once, by one thread, before any role starts.
  static void Init(uint32 barriers) {
    for (int i = 0; i < kBuffers; ++i) ptx::InitBarrier(barriers + 8 * i, 1);
  }

  // Starts to fetch the first slabs of C of the tile at `at`. Their buffers are
  // free, but for that of the newest store: others were waited for before it was
  // issued.
  void Prefetch(const Arguments& arguments, Tile at) {
    if constexpr (C::kStagesC) {
      if (!IsLeader()) return;
      if constexpr (C::kGrouped) ptx::AcquireTensorMap(&arguments.c);
      if constexpr (kSlabs % kBuffers != 0) ptx::WaitStoresRead();
#pragma unroll
      for (int i = 0; i < Min(kAhead, kSlabs); ++i) {
        LoadC(arguments, SlabAt(at, i), BufferOf(i));
      }
    }
  }

  // The slabs of the tile at `at` that are `wanted`, by their number.
  template <typename Wanted>
  void Write(const Arguments& arguments, const SumOf<C>& sums, Tile at,
             const Wanted& wanted) {
    if (C::kGrouped && IsLeader()) {
      ptx::AcquireTensorMap(&arguments.d);
      if constexpr (C::kAuxiliary) ptx::AcquireTensorMap(&arguments.auxiliary);
    }
    // Addresses that depend on the lane are made anew for every tile where the
    // epilogue, or X, needs the registers in which they would outlive the
    // product.
    constexpr bool kAnew = C::kManySteps || kWidens<C>;
    const int lane = kAnew ? ptx::Opaque(lane_) : lane_;
#pragma unroll
    for (int i = 0; i < kSlabs; ++i) {
      if (!wanted(i / kOutputs)) continue;
      const Tile corner = SlabAt(at, i);
      const uint32 number = BufferOf(i);
      const uint32 buffer = staging_ + number * T::kSlabBytes;
      const bool whole = i % kOutputs == kOutputs - 1;
      if constexpr (C::kStagesC) {
        ptx::Wait(barriers_ + 8 * number, phases_ >> number & 1);
        phases_ ^= 1u << number;
      }
      Slab<C>::Exchange(
          [&](int group) {
            return sums.At(BlockOf(i), ColumnOf(i) / 8 + group);
          },
          [&](const auto& patch, const auto& c, int row, int column) {
            return finish_(
                arguments.epilogue, patch, c,
                {corner.row + row, corner.column + column, corner.matrix},
                whole);
          },
          buffer, warp_, lane);
      ptx::FenceAsyncShared();
      // Past this barrier the slab is complete and all other buffers are free.
      if (IsLeader()) ptx::WaitStoresRead();
      SyncWarpgroup();
      if (IsLeader()) {
        Slab<C>::Send(whole ? &arguments.d : &arguments.auxiliary, corner,
                      buffer);
        ptx::CommitStores();
        if (C::kStagesC && i + kAhead < kSlabs) {
          LoadC(arguments, SlabAt(at, i + kAhead), BufferOf(i + kAhead));
        }
      }
      buffer_ ^= 1;
    }
  }

  // Before the CTA exits and gives its shared memory back. What the stores
  // write is visible when the grid is complete.
  void End(const KernelArguments<C>& all) {
    // Steps that look at all elements of a product are in no grouped launch.
    if constexpr (!C::kGrouped) finish_.End(all.epilogue);
    if (IsLeader()) ptx::WaitStoresRead();
  }

 private:
  // Barriers are named by constants: with a name in a register, ptxas reserves
  // all sixteen and runs out of registers on the largest tiles.
  void SyncWarpgroup() const {
    static_assert(C::kConsumers <= 4);
    if (C::kConsumers > 2 && consumer_ >= 2) {
      if (consumer_ == 2) {
        ptx::SyncThreads<3, kWarpgroupThreads>();
      } else {
        ptx::SyncThreads<4, kWarpgroupThreads>();
      }
      return;
    }
    if (consumer_ == 0) {
      ptx::SyncThreads<1, kWarpgroupThreads>();
    } else {
      ptx::SyncThreads<2, kWarpgroupThreads>();
    }
  }

  bool IsLeader() const { return warp_ == 0 && ptx::ElectOne(); }

  // Slab number `i`, counting every output. Partial products have but one.
  static constexpr int kOutputs = C::kAuxiliary && !C::kSplitK ? 2 : 1;
  static constexpr int kSlabs = T::kBlocks * T::kSlabs * kOutputs;
  // Slabs whose C is on its way while one is written.
  static constexpr int kAhead = kBuffers - 1;
  static constexpr int BlockOf(int i) { return i / kOutputs / T::kSlabs; }
  static constexpr int ColumnOf(int i) {
    return SlabColumn(C::kTileN, T::kSlabColumns, i / kOutputs % T::kSlabs);
  }
  static Tile SlabAt(Tile tile, int i) {
    return {tile.row + BlockOf(i) * kInstructionM, tile.column + ColumnOf(i),
            tile.matrix};
  }

  // Of slab number `i`. Those of C begin anew with each tile, so that addresses
  // are constants, for which the largest tiles need no registers.
  uint32 BufferOf(int i) const { return C::kStagesC ? i % kBuffers : buffer_; }

  void LoadC(const Arguments& arguments, Tile at, uint32 buffer) {
    const uint32 barrier = barriers_ + 8 * buffer;
    ptx::ArriveExpecting(barrier, T::kSlabBytes);
    Slab<C>::Fetch(&arguments.c, at, staging_ + buffer * T::kSlabBytes,
                   barrier);
  }

  Finish<C> finish_;
  const uint32 staging_;
  const uint32 barriers_;
  const int consumer_;
  const int warp_;
  const int lane_;
  uint32 buffer_ = 0;  // The buffer of the next slab, unless C is staged.
  uint32 phases_ = 0;  // Bit b: parity of buffer b's next fetch of C.
};

}  // namespace gemmd
