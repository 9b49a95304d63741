// A unit that two CTAs share (Balance): the one that begins it passes its sums
// on through device memory, and the other continues from them, so that they are
// rounded as those of one. Each warp waits for the same one of the CTA before.
#pragma once

#include "common/arguments.h"
#include "common/tiling.h"
#include "common/types.h"
#include "pipeline/sum.h"
#include "ptx/pass.h"
#include "ptx/thread.h"

namespace gemmd {

template <IsConfig C>
class PassedSums {
 public:
  // For `lane` of `warp` of consumer number `consumer`.
  PassedSums(const KernelArguments<C>& all, int consumer, int warp, int lane)
      : all_(all),
        warp_((T::kPingPong ? 0 : 4 * consumer) + warp),
        lane_(lane) {}

  // By whole warps, whose instructions have ended.
  void Give(SumOf<C>& sums) const {
    ForPairs(ptx::CtaIndex(), sums, [](auto* at, auto& first, auto& second) {
      ptx::StorePair(at, first, second);
    });
    ptx::SyncWarp();
    if (lane_ == 0) ptx::RaiseFlag(FlagOf(ptx::CtaIndex()));
    ptx::SyncWarp();
  }

  // Those of the CTA before, or of the same one of the cluster before.
  void Take(SumOf<C>& sums) const {
    const int giver = ptx::CtaIndex() - C::kMulticast;
    if (lane_ == 0) ptx::WaitForFlag(FlagOf(giver));
    ptx::SyncWarp();
    ForPairs(giver, sums, [](auto* at, auto& first, auto& second) {
      ptx::LoadPair(at, first, second);
    });
    ptx::SyncWarp();
    if (lane_ == 0) ptx::LowerFlag(FlagOf(giver));
  }

 private:
  using T = Tiling<C>;
  using Register = ptx::Wgmma::Register;
  static constexpr int kRegisters = ptx::Wgmma::kRegisters;

  uint32* FlagOf(int cta) const {
    return all_.balance.flags + cta * kPassFlags + warp_;
  }

  // Pairs of registers of all lanes lie together.
  template <typename Body>
  void ForPairs(int cta, SumOf<C>& sums, const Body& body) const {
    auto* at = static_cast<Register*>(all_.balance.sums) +
               int64{cta} * (C::kTileM * C::kTileN) +
               warp_ * (T::kBlocks * kRegisters * 32) + 2 * lane_;
#pragma unroll
    for (int block = 0; block < T::kBlocks; ++block) {
      auto& total = sums.Total(block);
#pragma unroll
      for (int i = 0; i < kRegisters; i += 2) {
        body(at + (block * kRegisters + i) * 32, total[i], total[i + 1]);
      }
    }
  }

  const KernelArguments<C>& all_;
  const int warp_;  // Of those that hold a tile's sums.
  const int lane_;
};

}  // namespace gemmd
