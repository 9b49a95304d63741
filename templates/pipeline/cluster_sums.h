// CTAs of a cluster that share a tile have sums of parts of k. The tile is cut
// into pieces, slabs of blocks of 64 rows, of which each CTA makes some: all
// send it their sums of those, and it adds them up in ascending order, and from
// +0, as the reduction of a split product does (kernels/reduce.cu).
#pragma once

#include "common/plus.h"
#include "common/tiling.h"
#include "common/types.h"
#include "pipeline/sum.h"
#include "ptx/barrier.h"
#include "ptx/cluster.h"
#include "ptx/shared.h"

namespace gemmd {

template <IsConfig C>
class ClusterSums {
 public:
  static constexpr int kBytes =
      ClusterBytes(C::kCluster, C::kTileM, C::kTileN, Tiling<C>::kSlabColumns);

  // For `thread` of consumer number `consumer` of the CTA numbered `rank`.
  ClusterSums(uint32 buffers, uint32 barrier, int rank, int consumer,
              int thread)
      : rank_(rank),
        first_(consumer * kConsumerPieces),
        own_(buffers + thread * 16),
        barrier_(barrier) {}

  // Once, by one thread, before the cluster meets: announces what will come.
  static void Init(uint32 barrier, int rank) {
    ptx::InitBarrier(barrier, 1);
    const int pieces = DivideUp(kPieces - rank, C::kCluster);
    ptx::ArriveExpecting(barrier, pieces * C::kCluster * kPieceBytes);
  }

  // Whether this CTA makes that piece of the consumer's.
  bool Owns(int piece) const {
    return static_cast<uint32>(first_ + piece) % C::kCluster == rank_;
  }

  // Of a cluster's only tile. The sums of the pieces that this CTA makes are
  // then those of the whole k.
  void AddUp(SumOf<C>& sums) const {
    ptx::WaitCluster();
    ForPieces(
        [&](int piece, auto& words) {
          const uint32 number = first_ + piece;
          const uint32 owner = number % C::kCluster;
          const uint32 to = ptx::PeerAddress(At(number, rank_), owner);
          const uint32 barrier = ptx::PeerAddress(barrier_, owner);
#pragma unroll
          for (int group = 0; group < kGroups; ++group) {
            ptx::SendToPeer(to + group * kGroupBytes, barrier,
                            &words[WordOf(piece, group)]);
          }
        },
        sums);
    ptx::Wait(barrier_, 0);
    ForPieces(
        [&](int piece, auto& words) {
          if (!Owns(piece)) return;
#pragma unroll
          for (int group = 0; group < kGroups; ++group) {
            auto* const total = &words[WordOf(piece, group)];
#pragma unroll
            for (int i = 0; i < 4; ++i) total[i] = 0;
#pragma unroll
            for (int part = 0; part < C::kCluster; ++part) {
              typename C::Sum of_part[4];
              ptx::LoadShared(At(first_ + piece, part) + group * kGroupBytes,
                              of_part);
#pragma unroll
              for (int i = 0; i < 4; ++i) total[i] = Plus(total[i], of_part[i]);
            }
          }
        },
        sums);
  }

 private:
  using T = Tiling<C>;
  static constexpr int kConsumerPieces = T::kBlocks * T::kSlabs;
  static constexpr int kPieces = kConsumerPieces * C::kConsumers;
  static constexpr int kGroups = T::kSlabColumns / 8;
  // Four sums of each thread of a consumer.
  static constexpr int kGroupBytes = kWarpgroupThreads * 16;
  static constexpr int kPieceBytes = kGroups * kGroupBytes;

  // Where the sums of a piece over a part of k go, in the CTA that makes it.
  uint32 At(uint32 piece, uint32 part) const {
    return own_ + (piece / C::kCluster * C::kCluster + part) * kPieceBytes;
  }

  static constexpr int WordOf(int piece, int group) {
    return (piece % T::kSlabs * kGroups + group) * 4;
  }

  template <typename Body>
  static void ForPieces(const Body& body, SumOf<C>& sums) {
#pragma unroll
    for (int piece = 0; piece < kConsumerPieces; ++piece) {
      body(piece, sums.Total(piece / T::kSlabs));
    }
  }

  const uint32 rank_;
  const uint32 first_;  // Piece of this consumer.
  const uint32 own_;
  const uint32 barrier_;
};

}  // namespace gemmd
