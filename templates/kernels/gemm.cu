// Dense product of 16-bit operands with f32 accumulation:
//   P = alpha * X Y^T + beta * C.
// Persistent CTAs walk tiles of P. One producer thread drives the copy engine
// into a ring of stages; consumer warpgroups multiply stages with wgmma and
// write tiles through staging buffers, which overlaps the next tile's loads.
//
// Cooperative: the consumers split a tile's rows. Ping-pong: each consumer has
// whole tiles, in turn, so that one's epilogue overlaps the other's wgmma.
#include "common/arguments.h"
#include "common/tiling.h"
#include "epilogue/tile_writer.h"
#include "pipeline/operand_tile.h"
#include "pipeline/ring.h"
#include "pipeline/turn.h"
#include "ptx/barrier.h"
#include "ptx/fence.h"
#include "ptx/grid.h"
#include "ptx/registers.h"
#include "ptx/thread.h"
#include "ptx/tma.h"
#include "ptx/wgmma.h"
#include "scheduler/raster.h"

namespace gemmd {

using T = Tiling<Config>;
using XTile = OperandTile<Config::Input, Config::kXMajor, Config::kTileM>;
using YTile = OperandTile<Config::Input, Config::kYMajor, Config::kTileN>;
using Instruction = ptx::Wgmma<Config::Input, Config::kTileN>;
using Writer = TileWriter<Config>;

// Shared memory, in this order: stages, staging buffers, barriers.
constexpr int kStageBytes = XTile::kBytes + YTile::kBytes;
constexpr int kStaging = Config::kStages * kStageBytes;
constexpr int kRingBarriers = kStaging + T::kStagingBytes;
constexpr int kTurnBarriers = kRingBarriers + Ring<Config::kStages>::kBytes;
constexpr int kWriterBarriers = kTurnBarriers + Turn::kBytes;
static_assert(kWriterBarriers + Config::kConsumers * Writer::kBarrierBytes <=
                  Config::kSharedMemoryBytes,
              "the planner reserved too little shared memory");

// Registers per thread by role. All accumulators live in consumers; when they
// are many, consumers take registers that the producer does not need. Small
// kernels stay small, so that a dependent grid finds room beside them.
constexpr int kAccumulators = T::kBlocks * Config::kTileN / 2;
constexpr bool kMoveRegisters = kAccumulators > 96 && Config::kConsumers == 2;
constexpr int kProducerRegisters = kAccumulators >= 176 ? 24 : 40;
constexpr int kConsumerRegisters = kAccumulators >= 176 ? 240 : 232;

// A unit of work: one tile of P over one part of k. Units with the same part
// are neighbours, so that they share operands in L2.
class Work {
 public:
  explicit Work(const Arguments& arguments)
      : raster_(arguments.rows, arguments.columns, arguments.raster_group),
        stages_(DivideUp(arguments.depth, Config::kTileK)),
        splits_(Config::kSplitK ? arguments.splits : 1) {}

  int count() const { return raster_.count() * splits_; }
  Tile TileOf(int unit) const {
    return raster_.At(Config::kSplitK ? unit % raster_.count() : unit);
  }
  int SplitOf(int unit) const { return unit / raster_.count(); }

  Part StagesOf(int unit) const {
    if constexpr (!Config::kSplitK) return {0, stages_};
    return PartOf(stages_, splits_, SplitOf(unit));
  }

 private:
  const Raster<Config::kTileM, Config::kTileN> raster_;
  const int stages_;
  const int splits_;
};

void Produce(const Arguments& arguments, uint32 shared,
             Ring<Config::kStages> ring) {
  const Work work(arguments);
  for (int unit = ptx::CtaIndex(); unit < work.count();
       unit += ptx::CtaCount()) {
    const Tile tile = work.TileOf(unit);
    const Part part = work.StagesOf(unit);
    for (int i = 0; i < part.count; ++i) {
      ring.Acquire(kStageBytes);
      const uint32 x = shared + ring.stage() * kStageBytes;
      const uint32 full = ring.full(ring.stage());
      const int k = (part.first + i) * Config::kTileK;
      XTile::Load(x, &arguments.x, tile.row, k, full);
      YTile::Load(x + XTile::kBytes, &arguments.y, tile.column, k, full);
      ring.Advance();
    }
  }
}

// accumulators = rows of X's tile, from `first_row`, times Y's tile. One group
// of wgmma stays in flight; the stage before it is released. A ping-pong
// consumer passes its turn on when its last stage is there.
void Multiply(float (&accumulators)[T::kBlocks][Config::kTileN / 2],
              uint32 shared, Ring<Config::kStages>& ring, Turn& turn,
              int stages, int first_row, bool first_warp) {
  if constexpr (T::kPingPong) turn.Wait();
  if (stages == 0) {
#pragma unroll
    for (auto& block : accumulators) {
#pragma unroll
      for (float& value : block) value = 0.0f;
    }
  }
  uint32 previous = 0;
#pragma unroll 1
  for (int stage = 0; stage < stages; ++stage) {
    const uint32 x = shared + ring.stage() * kStageBytes;
    const uint64 x_descriptor =
        XTile::Descriptor(x) + XTile::Offset(first_row / kInstructionM, 0);
    const uint64 y_descriptor = YTile::Descriptor(x + XTile::kBytes);
    ring.WaitFull();
    ptx::WgmmaFence();
#pragma unroll
    for (int step = 0; step < T::kSteps; ++step) {
#pragma unroll
      for (int block = 0; block < T::kBlocks; ++block) {
        Instruction::template Issue<Config::kXMajor == Major::kMn,
                                    Config::kYMajor == Major::kMn>(
            accumulators[block], x_descriptor + XTile::Offset(block, step),
            y_descriptor + YTile::Offset(0, step), stage + step);
      }
    }
    ptx::WgmmaCommit();
    ptx::WgmmaWait<1>();
    if (first_warp && stage > 0 && ptx::ElectOne()) ring.Release(previous);
    previous = ring.stage();
    ring.Advance();
  }
  if (T::kPingPong && first_warp && ptx::ElectOne()) turn.Pass();
  ptx::WgmmaWait<0>();
  if (first_warp && stages > 0 && ptx::ElectOne()) ring.Release(previous);
}

// Where a consumer writes its rows of a unit: partial sums go below each other.
Tile Destination(const Work& work, const Arguments& arguments, int unit,
                 int first_row) {
  Tile tile = work.TileOf(unit);
  tile.row += first_row;
  if constexpr (Config::kSplitK) {
    const int line = work.SplitOf(unit) * arguments.partial_lines;
    (Config::kStore == Store::kTransposed ? tile.column : tile.row) += line;
  }
  return tile;
}

void Consume(const Arguments& arguments, uint32 shared,
             Ring<Config::kStages> ring, int consumer, int warp, int lane) {
  const Work work(arguments);
  const int first_row =
      T::kPingPong ? 0 : consumer * T::kBlocks * kInstructionM;
  Writer writer(arguments, shared + kStaging + consumer * Writer::kStagingBytes,
                shared + kWriterBarriers + consumer * Writer::kBarrierBytes,
                consumer, warp, lane);
  Turn turn(shared + kTurnBarriers, consumer);
  float accumulators[T::kBlocks][Config::kTileN / 2];

  int units = 0;  // That this CTA has begun.
  for (int unit = ptx::CtaIndex(); unit < work.count();
       unit += ptx::CtaCount(), ++units) {
    const int stages = work.StagesOf(unit).count;
    if (T::kPingPong && units % 2 != consumer) {
      ring.Skip(stages);
      continue;
    }
    if constexpr (T::kReadsC) {
      writer.Prefetch(Destination(work, arguments, unit, first_row));
    }
    Multiply(accumulators, shared, ring, turn, stages, first_row, warp == 0);
    writer.Write(accumulators, Destination(work, arguments, unit, first_row));
  }
  writer.Finish();
}

}  // namespace gemmd

extern "C" __global__ void __launch_bounds__(gemmd::T::kThreads, 1)
    gemmd_kernel(const __grid_constant__ gemmd::Arguments arguments) {
  using namespace gemmd;
  const uint32 shared = ptx::SharedBase();
  const Ring<Config::kStages> ring(shared + kRingBarriers);
  const int thread = ptx::ThreadIndex();
  const int warp = ptx::Broadcast(thread / 32);
  const int warpgroup = warp / 4;

  if (warp == 0 && ptx::ElectOne()) {
    ptx::PrefetchTensorMap(&arguments.x);
    ptx::PrefetchTensorMap(&arguments.y);
    ptx::PrefetchTensorMap(&arguments.d);
    ring.Init(T::kPingPong ? 1 : Config::kConsumers);
    Turn::Init(shared + kTurnBarriers);
    for (int i = 0; i < Config::kConsumers; ++i) {
      Writer::Init(shared + kWriterBarriers + i * Writer::kBarrierBytes);
    }
    ptx::FenceBarrierInit();
  }
  ptx::SyncCta();
  ptx::LaunchDependents();
  ptx::WaitForDependencies();

  if (warpgroup == 0) {
    if constexpr (kMoveRegisters) ptx::GiveRegisters<kProducerRegisters>();
    if (warp == 0 && ptx::ElectOne()) Produce(arguments, shared, ring);
  } else {
    if constexpr (kMoveRegisters) ptx::TakeRegisters<kConsumerRegisters>();
    Consume(arguments, shared, ring, warpgroup - 1, warp % 4, thread % 32);
  }
}
