// Consumers that take a tile's stages in turn have sums of parts of k. All but
// the first hand theirs to it, which adds them up: in ascending order, and from
// +0, as the reduction of a split product does (kernels/reduce.cu).
#pragma once

#include "common/tiling.h"
#include "common/types.h"
#include "pipeline/sum.h"
#include "ptx/shared.h"
#include "ptx/thread.h"

namespace gemmd {

template <IsConfig C>
class HandedSums {
 public:
  // For `thread` of a consumer's. All consumers have the same `buffers`.
  HandedSums(uint32 buffers, int consumer, int thread)
      : consumer_(consumer), own_(buffers + thread * 8) {}

  // Once for every tile, by all consumers. The sums of the first are then those
  // of the whole k.
  void AddUp(SumOf<C>& sums) const {
    SyncConsumers();  // Those of the tile before have been taken.
    if (consumer_ != 0) Hand(sums);
    SyncConsumers();
    if (consumer_ == 0) Take(sums);
  }

 private:
  using T = Tiling<C>;
  static constexpr int kBlockSums = kInstructionM * C::kTileN / 128;
  static constexpr int kConsumerBytes = C::kTileM * C::kTileN * 4;

  static void SyncConsumers() {
    ptx::SyncThreads<5, C::kConsumers * kWarpgroupThreads>();
  }

  // Where two neighbouring sums of a thread go: those of the same two of all
  // threads lie together.
  uint32 At(int consumer, int block, int i) const {
    return own_ + (consumer - 1) * kConsumerBytes +
           (block * kBlockSums + i) * kWarpgroupThreads * 4;
  }

  void Hand(SumOf<C>& sums) const {
#pragma unroll
    for (int block = 0; block < T::kBlocks; ++block) {
      const auto& total = sums.Total(block);
#pragma unroll
      for (int i = 0; i < kBlockSums; i += 2) {
        ptx::StoreShared(At(consumer_, block, i), total[i], total[i + 1]);
      }
    }
  }

  void Take(SumOf<C>& sums) const {
#pragma unroll
    for (int block = 0; block < T::kBlocks; ++block) {
      auto& total = sums.Total(block);
#pragma unroll
      for (int i = 0; i < kBlockSums; i += 2) {
        total[i] += 0.0f;
        total[i + 1] += 0.0f;
#pragma unroll
        for (int consumer = 1; consumer < C::kConsumers; ++consumer) {
          float first, second;
          ptx::LoadShared(At(consumer, block, i), first, second);
          total[i] += first;
          total[i + 1] += second;
        }
      }
    }
  }

  const int consumer_;
  const uint32 own_;
};

}  // namespace gemmd
