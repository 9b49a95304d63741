// A product with the epilogue of the config:
//   P = epilogue(X Y^T), X dense, sparse or of weights that are widened.
// Persistent CTAs walk tiles of P. One producer thread drives the copy engine
// into a ring of stages; consumer warpgroups multiply stages with wgmma and
// write tiles through staging buffers, which overlaps the next tile's loads.
//
// Cooperative: the consumers split a tile's rows. Ping-pong: each consumer has
// whole tiles, in turn, so that one's epilogue overlaps the other's wgmma.
// Interleaved: each consumer has every so-many-th stage of a tile, with a ring
// and a producer of its own, and their sums are added up in the end.
//
// Clusters: their CTAs share k of a tile, and each makes some of it.
//
// Multicast: CTAs of a cluster have tiles below each other, and the same Y, of
// which each loads a part for all.
//
// The last tiles are shared out to the stage (Balance), so that all CTAs end
// together: one continues the sums that another has begun.
//
// Grouped: one launch makes many products, whose arguments lie in device
// memory; each unit of work knows its own.
#include "common/arguments.h"
#include "common/tiling.h"
#include "epilogue/tile_writer.h"
#include "pipeline/cluster_sums.h"
#include "pipeline/handed_sums.h"
#include "pipeline/operand_tile.h"
#include "pipeline/passed_sums.h"
#include "pipeline/ring.h"
#include "pipeline/sum.h"
#include "pipeline/turn.h"
#include "pipeline/x_source.h"
#include "ptx/barrier.h"
#include "ptx/cluster.h"
#include "ptx/fence.h"
#include "ptx/grid.h"
#include "ptx/registers.h"
#include "ptx/thread.h"
#include "ptx/tma.h"
#include "ptx/wgmma.h"
#include "scheduler/work.h"

namespace gemmd {

using T = Tiling<Config>;
using X = XSource<Config>;
using YTile = OperandTile<Config::YElement, Config::kYMajor, Config::kTileN>;
using Sums = SumOf<Config>;
using Writer = TileWriter<Config>;
using StageRing = Ring<T::kRingStages, Config::kMulticast>;
using OfCluster = ClusterSums<Config>;

// Shared memory, in this order: stages, staging buffers, sums that are handed
// over, sums of other CTAs, barriers.
constexpr int kStageBytes = X::kBytes + YTile::kBytes;
constexpr int kRingBytes = T::kRingStages * kStageBytes;
constexpr int kStaging = T::kRings * kRingBytes;
constexpr int kHanded = kStaging + T::kStagingBytes;
constexpr int kOfCluster =
    kHanded + HandedBytes(Config::kSchedule, Config::kConsumers, Config::kTileM,
                          Config::kTileN);
constexpr int kRingBarriers = kOfCluster + OfCluster::kBytes;
constexpr int kTurnBarriers = kRingBarriers + T::kRings * StageRing::kBytes;
constexpr int kWriterBarriers = kTurnBarriers + Turn::kBytes;
constexpr int kClusterBarrier =
    kWriterBarriers + Config::kConsumers * Writer::kBarrierBytes;
static_assert(kClusterBarrier + 8 <= Config::kSharedMemoryBytes,
              "the planner reserved too little shared memory");

constexpr int kPartSteps = T::kSteps / Sums::kParts;

// Registers per thread by role. All sums live in consumers; when they are
// many, or the epilogue has much to do, consumers take registers that the
// producer does not need. Small kernels stay small, so that a dependent grid
// finds room beside them.
constexpr int kSumRegisters = sizeof(Sums) / 4;
constexpr int kXRegisters = kWidens<Config> ? 32 * T::kBlocks : 0;
// Bytes of a transposed slab are packed across lanes, out of many registers.
constexpr bool kPacksBytes =
    T::kStagedBytes == 1 && Config::kStore == Store::kTransposed;
constexpr bool kMoveRegisters =
    (kSumRegisters + kXRegisters > 96 || Config::kManySteps ||
     (kPacksBytes && T::kBlocks * T::kGroups * 4 > 72)) &&
        Config::kConsumers == 2 ||
    Config::kConsumers == 3 || T::kInterleaved && Config::kConsumers == 4;
constexpr bool kMany = kSumRegisters + kXRegisters >= 176 ||
                       Config::kPromoted || Config::kManySteps;
constexpr int kProducerRegisters =
    kMany || T::kInterleaved || Config::kConsumers == 3 ? 24 : 40;
constexpr int kRegistersOfTwo = kMany ? 240 : 232;
constexpr int kConsumerRegisters = Config::kConsumers == 4   ? 112
                                   : Config::kConsumers == 3 ? 160
                                                             : kRegistersOfTwo;

// Cooperative consumers that widen issue their instructions in turn, so that
// one works while the tensor cores multiply for the other.
constexpr bool kAlternate = kWidens<Config> && T::kSharers == 2;

// Where registers hold an X more, interleaved consumers widen a stage ahead.
constexpr bool kAhead = T::kInterleaved && T::kBlocks == 1;

constexpr bool kClusters = Config::kCluster > 1;
constexpr bool kMulticast = Config::kMulticast > 1;

template <typename A>
void Prefetch(const A& arguments) {
  ptx::PrefetchTensorMap(&arguments.x);
  if constexpr (Config::kSparse || Config::kStageGroups != 0) {
    ptx::PrefetchTensorMap(&arguments.metadata);
  }
  ptx::PrefetchTensorMap(&arguments.y);
  ptx::PrefetchTensorMap(&arguments.d);
}

// Groups of products do as they end.
template <typename A>
bool StartsNextEarly(const A& arguments) {
  if constexpr (Config::kGrouped) {
    return false;
  } else {
    return arguments.starts_next_early != 0;
  }
}

// Fills the ring whose stages begin at `shared` with those of `part` of k, of
// the tiles of `member`.
void Produce(const KernelArguments<Config>& all, uint32 shared, StageRing ring,
             int part, int member) {
  for (Work<Config> work(all, part, member); !work.done(); work.Advance()) {
    const Arguments& arguments = work.product();
    if constexpr (Config::kGrouped) {
      X::Acquire(arguments);
      ptx::AcquireTensorMap(&arguments.y);
    }
    const Unit unit = work.unit();
    const int x_matrix = arguments.x_matrices == 1 ? 0 : unit.tile.matrix;
    const int y_matrix = arguments.y_matrices == 1 ? 0 : unit.tile.matrix;
    StageWalk<Config> walk(arguments, unit.split + work.first_stage());
    for (int i = work.stages(); i > 0; --i, walk.Advance()) {
      ring.Acquire(X::kLoadBytes + YTile::kBytes - arguments.absent_bytes);
      const uint32 x = shared + ring.stage() * kStageBytes;
      const uint32 full = ring.full(ring.stage());
      X::Load(x, arguments, unit.tile.row, walk.stage(),
              x_matrix + walk.x_plane() * arguments.x_matrices, full);
      const int of_y = y_matrix + walk.y_plane() * arguments.y_matrices;
      if constexpr (kMulticast) {
        YTile::template LoadPart<Config::kMulticast>(
            x + X::kBytes, &arguments.y, unit.tile.column, walk.stage(), of_y,
            full, member);
      } else {
        YTile::Load(x + X::kBytes, &arguments.y, unit.tile.column, walk.stage(),
                    of_y, full);
      }
      ring.Advance();
    }
  }
  // Other CTAs release this one's stages while there are any.
  if constexpr (kMulticast) ring.Drain();
}

// A group of wgmma: x, of a part of a stage, times Y's at descriptor `y`.
void Issue(Sums& sums, const X& x, uint64 y, int stage, int part) {
  ptx::WgmmaFence();
#pragma unroll
  for (int i = 0; i < kPartSteps; ++i) {
    const int step = part * kPartSteps + i;
#pragma unroll
    for (int block = 0; block < T::kBlocks; ++block) {
      x.Issue(sums.Target(block), block, step,
              y + YTile::Offset(0, step * T::kStepBytes / kInstructionKBytes),
              sums.Accumulates(stage, i));
    }
  }
  ptx::WgmmaCommit();
}

// What a consumer multiplies: rows of X's tile, from `first_row`, by Y's tile,
// in stages `first` to `last`, of which stage 0 begins anew. There is at least
// one.
struct Span {
  int first;
  int last;
  int first_row;
};

// sums += X Y^T. A ping-pong consumer passes its turn on when its last stage is
// there. While a group of wgmma stays in flight, the stage before it is
// released. Where a thread may put something into the sums before, the first
// group is none of the loop's, each of which the compiler would then wait for.
void MultiplyInFlight(Sums& sums, uint32 shared, StageRing& ring, Turn& turn,
                      const Span& span, bool first_warp) {
  if constexpr (T::kPingPong) turn.Wait();
  const auto issue = [&](int stage) {
    const uint32 at = shared + ring.stage() * kStageBytes;
    const X x(at, span.first_row / kInstructionM);
    ring.WaitFull();
    Issue(sums, x, YTile::Descriptor(at + X::kBytes), stage, 0);
  };
  int stage = span.first;
  uint32 previous = ring.stage();
  if constexpr (Config::kBalanced) {
    issue(stage++);
    ring.Advance();
  }
#pragma unroll 1
  for (; stage <= span.last; ++stage) {
    issue(stage);
    ptx::WgmmaWait<1>();
    if (stage > span.first && first_warp && ptx::ElectOne()) {
      ring.Release(previous);
    }
    previous = ring.stage();
    ring.Advance();
  }
  if (T::kPingPong && first_warp && ptx::ElectOne()) turn.Pass();
  ptx::WgmmaWait<0>();
  if (first_warp && ptx::ElectOne()) ring.Release(previous);
}

// The same where sums, metadata or X in registers are used when the
// instructions of a stage, or of a part of it, have ended.
void MultiplyInTurn(Sums& sums, uint32 shared, StageRing& ring, Turn& turn,
                    const Span& span, bool first_warp, uint32 unknown_zero) {
  if constexpr (T::kPingPong) turn.Wait();
#pragma unroll 1
  for (int stage = span.first; stage <= span.last; ++stage) {
    const uint32 at = shared + ring.stage() * kStageBytes;
    X x(at, span.first_row / kInstructionM);
    const uint64 y = YTile::Descriptor(at + X::kBytes);
    sums.BeginStage(stage, span.last);
    ring.WaitFull();
    x.Fetch(unknown_zero);
#pragma unroll
    for (int part = 0; part < Sums::kParts; ++part) {
      if constexpr (kAlternate) turn.Wait();
      Issue(sums, x, y, stage, part);
      if constexpr (kAlternate) {
        if (ptx::ElectOne()) turn.Pass();
      }
      ptx::WgmmaWait<0>();
      x.Hold(unknown_zero);
      if (part == Sums::kParts - 1 && first_warp && ptx::ElectOne()) {
        ring.Release(ring.stage());
      }
      sums.EndPart(x, part);
    }
    ring.Advance();
  }
  if (T::kPingPong && first_warp && ptx::ElectOne()) turn.Pass();
}

// The same of all rows, which are one block. The X of a stage is widened while
// the tensor cores multiply the one before.
void MultiplyAhead(Sums& sums, uint32 shared, StageRing& ring, int stages,
                   bool first_warp, uint32 unknown_zero) {
  const auto fetch = [&](X& x) {
    x = X(shared + ring.stage() * kStageBytes, 0);
    ring.WaitFull();
    x.Fetch(unknown_zero);
  };
  const auto multiply = [&](const X& x, X& next, int stage) {
    const uint32 own = ring.stage();
    const uint64 y = YTile::Descriptor(shared + own * kStageBytes + X::kBytes);
    ring.Advance();
#pragma unroll
    for (int part = 0; part < Sums::kParts; ++part) {
      Issue(sums, x, y, stage, part);
      if (part == 0 && stage + 1 < stages) fetch(next);
      ptx::WgmmaWait<0>();
      x.Hold(unknown_zero);
      if (part == Sums::kParts - 1 && first_warp && ptx::ElectOne()) {
        ring.Release(own);
      }
      sums.EndPart(x, part);
    }
  };
  X even(shared, 0), odd(shared, 0);
  fetch(even);
#pragma unroll 1
  for (int stage = 0; stage < stages; stage += 2) {
    multiply(even, odd, stage);
    if (stage + 1 < stages) multiply(odd, even, stage + 1);
  }
}

void Consume(const KernelArguments<Config>& all, uint32 shared, StageRing ring,
             int rank, int consumer, int warp, int lane) {
  const int first_row = T::kPingPong || T::kInterleaved
                            ? 0
                            : consumer * T::kBlocks * kInstructionM;
  Writer writer(shared + kStaging + consumer * Writer::kStagingBytes,
                shared + kWriterBarriers + consumer * Writer::kBarrierBytes,
                consumer, warp, lane);
  const int number = T::kInterleaved ? consumer : 0;  // Of the ring.
  const uint32 at = shared + number * kRingBytes;
  const int thread = 32 * warp + lane;
  const bool writes = !T::kInterleaved || consumer == 0;
  const HandedSums<Config> handed(shared + kHanded, consumer, thread);
  const OfCluster of_cluster(shared + kOfCluster, shared + kClusterBarrier,
                             rank, consumer, thread);
  Turn turn(shared + kTurnBarriers, consumer);
  const PassedSums<Config> passed(all, consumer, warp, lane);
  Sums sums;

  int units = 0;  // That this CTA has begun.
  for (Work<Config> work(all, kClusters ? rank : number, kMulticast ? rank : 0);
       !work.done(); work.Advance(), ++units) {
    const Arguments& arguments = work.product();
    const int stages = work.stages();
    if (T::kPingPong && units % 2 != consumer) {
      ring.Skip(stages);
      continue;
    }
    if constexpr (Config::kStagesC) {
      if (writes && !work.passes_on()) {
        writer.Prefetch(arguments, work.target(first_row));
      }
    }
    sums.Locate(arguments, work.unit(), first_row + 16 * warp + lane / 4);
    sums.Begin();
    if constexpr (Config::kBalanced) {
      if (work.continues()) passed.Take(sums);
    }
    const uint32 unknown_zero = arguments.weights.unknown_zero;
    const int first = work.first_stage();
    const Span span = {first, first + stages - 1, first_row};
    if constexpr (kAhead) {
      MultiplyAhead(sums, at, ring, stages, warp == 0, unknown_zero);
    } else if constexpr (Sums::kGroupsInFlight != 0) {
      MultiplyInFlight(sums, at, ring, turn, span, warp == 0);
    } else {
      MultiplyInTurn(sums, at, ring, turn, span, warp == 0, unknown_zero);
    }
    if constexpr (Config::kBalanced) {
      if (work.passes_on()) {
        passed.Give(sums);
        continue;
      }
    }
    if constexpr (T::kInterleaved) handed.AddUp(sums);
    if constexpr (kClusters) of_cluster.AddUp(sums);
    if (writes) {
      writer.Write(arguments, sums, work.target(first_row), [&](int slab) {
        return !kClusters || of_cluster.Owns(slab);
      });
    }
  }
  writer.End(all);
  // Whoever has written last; units alternate.
  if (T::kPingPong ? units % 2 != consumer : writes) ptx::LaunchDependents();
}

}  // namespace gemmd

extern "C" __global__ void __launch_bounds__(gemmd::T::kThreads, 1)
    gemmd_kernel(const __grid_constant__ gemmd::KernelArguments<gemmd::Config>
                     arguments) {
  using namespace gemmd;
  const uint32 shared = ptx::SharedBase();
  const int thread = ptx::ThreadIndex();
  const int warp = ptx::Broadcast(thread / 32);
  const int warpgroup = warp / 4;
  const int rank = kClusters || kMulticast ? ptx::ClusterRank() : 0;
  const auto ring_of = [shared](int number) {
    return StageRing(shared + kRingBarriers + number * StageRing::kBytes);
  };

  if (warp == 0 && ptx::ElectOne()) {
    if constexpr (!Config::kGrouped) Prefetch(arguments);
    for (int i = 0; i < T::kRings; ++i) ring_of(i).Init(T::kSharers);
    Turn::Init(shared + kTurnBarriers, kAlternate ? 4 : 1);
    for (int i = 0; i < Config::kConsumers; ++i) {
      Writer::Init(shared + kWriterBarriers + i * Writer::kBarrierBytes);
    }
    if constexpr (kClusters) OfCluster::Init(shared + kClusterBarrier, rank);
    ptx::FenceBarrierInit();
  }
  ptx::SyncCta();
  if constexpr (kClusters || kMulticast) ptx::ArriveCluster();
  if (StartsNextEarly(arguments)) ptx::LaunchDependents();
  ptx::WaitForDependencies();
  if constexpr (kMulticast) ptx::WaitCluster();

  if (warpgroup == 0) {
    if constexpr (kMoveRegisters) ptx::GiveRegisters<kProducerRegisters>();
    const int number = T::kInterleaved ? warp : 0;
    if (warp == number && number < T::kRings && ptx::ElectOne()) {
      Produce(arguments, shared + number * kRingBytes, ring_of(number),
              kClusters ? rank : number, kMulticast ? rank : 0);
    }
    if constexpr (kClusters) ptx::WaitCluster();
  } else {
    if constexpr (kMoveRegisters) ptx::TakeRegisters<kConsumerRegisters>();
    const int consumer = warpgroup - 1;
    Consume(arguments, shared, ring_of(T::kInterleaved ? consumer : 0), rank,
            consumer, warp % 4, thread % 32);
  }
}
