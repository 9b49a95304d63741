// Constants are measurements on an H100 SXM, bf16; see tests/bench.
#include "jit/plan/cost_model.h"

#include <algorithm>
#include <cmath>

#include "jit/plan/launch_arithmetic.h"
#include "jit/plan/tiling.h"

namespace gemmd::jit {
namespace {

// Columns of one instruction, 64 rows by 32 bytes of k whatever the type, that
// the tensor cores of one SM multiply per cycle.
constexpr double kColumnsPerCycle = 2;
// Shared-memory bytes that wgmma reads per cycle.
constexpr double kOperandBytesPerCycle = 128;
// Bytes per cycle that one SM gets from L2 while all SMs load.
constexpr double kLoadBytesPerCycle = 68;
// Loads cost energy and thus clock, in proportion to the bytes per cycle that
// exceed what the largest tiles need.
constexpr double kFreeBytesPerCycle = 46;
constexpr double kSlowdownPerByte = 0.004;
// First load to first wgmma.
constexpr double kFillCycles = 1000;
// An epilogue that nothing overlaps, per slab of P and per byte of it.
constexpr double kSlabCycles = 110;
constexpr double kStoreBytesPerCycle = 40;
// With fewer than four stages the tensor cores wait for loads; ping-pong
// consumers more so, since a tile starts on stages that the other one frees.
constexpr double kFewStagesCooperative = 1.05;
constexpr double kFewStagesPingPong = 1.08;
// Tiles of 256 rows against the same tile lying on its side.
constexpr double kTallTile = 1.01;
// Adding up promoted sums: one consumer's additions hide behind the other's
// instructions, unless consumers take turns.
constexpr double kPromotionCooperative = 1.06;
constexpr double kPromotionAlone = 1.3;
// Bytes per cycle that all SMs together read from device memory.
constexpr double kMemoryBytesPerCycle = 1500;
// The same of weights in fragment order, in long runs, on an H200.
constexpr double kWeightBytesPerCycle = 2000;
// Widening weights and scaling their sums, of a stage: what other consumers'
// instructions do not hide, and more for each further block of 64 rows.
constexpr double kWidenCyclesHidden = 220;
constexpr double kWidenCyclesAlone = 330;
constexpr double kWidenCyclesOfBlock = 110;
// The least that a stage takes of all consumers together, and of a block more;
// what other work on it adds.
constexpr double kWidenCyclesIssued = 100;
constexpr double kWidenCyclesIssuedOfBlock = 70;
constexpr double kInterleavedShare = 0.77;
// Sums that the CTAs of a cluster send each other: start and meeting of the
// cluster, and bytes of the tile's sums, which each sends and receives once.
constexpr double kClusterCycles = 900;
constexpr double kClusterBytesPerCycle = 12;
// What the shorter of reading and multiplying adds to the longer, but not where
// rings of their own let consumers go on.
constexpr double kOverlapCost = 0.2;
// What ping-pong costs when there is nothing to overlap.
constexpr double kPingPongCycles = 200;
// Bytes per cycle of sums that a CTA passes on, and of those that it takes,
// which ping-pong consumers do while the other one multiplies.
constexpr double kPassBytesPerCycle = 40;
constexpr double kPassCycles = 600;
// Start of the dependent reduction, and bytes of partial sums per cycle of all
// SMs together, written and read once.
constexpr double kReduceCycles = 2500;
constexpr double kReduceBytesPerCycle = 900;

// Of a stage, by one CTA. Those that load Y for each other get a part of it
// each, at the price of one.
double LoadedBytes(const Plan& plan) {
  const Config& config = plan.config;
  const double y = OperandTileBytes(plan.family.y_major, config.tile_n);
  return StageBytes(plan.family, config) - y + y / config.multicast;
}

double CyclesPerStage(const Plan& plan) {
  const Config& config = plan.config;
  // One instruction; both operands are read from shared memory.
  const double multiply = config.tile_n / kColumnsPerCycle;
  // A sparse one takes twice as much k of Y.
  const int y_lines = plan.family.instruction.sparse ? 2 : 1;
  const int x_lines = plan.family.widening ? 0 : kInstructionM;
  const double read = (x_lines + y_lines * config.tile_n) * kInstructionKBytes /
                      kOperandBytesPerCycle;
  const double instructions = config.tile_m / kInstructionM *
                              (kSwizzleBytes / kInstructionKBytes) / y_lines;
  const double busy = instructions * std::max(multiply, read);
  const double bytes = LoadedBytes(plan);
  const double excess =
      std::clamp(bytes / busy, kFreeBytesPerCycle, kLoadBytesPerCycle) -
      kFreeBytesPerCycle;
  const double few_stages = config.stages >= 4 ? 1.0
                            : config.schedule == Schedule::kPingPong
                                ? kFewStagesPingPong
                                : kFewStagesCooperative;
  const bool hidden =
      config.schedule == Schedule::kCooperative && config.consumers > 1;
  const double promotion = hidden ? kPromotionCooperative : kPromotionAlone;
  return std::max(busy, bytes / kLoadBytesPerCycle) *
         (1 + kSlowdownPerByte * excess) * few_stages *
         (config.tile_m > 128 ? kTallTile : 1.0) *
         (plan.family.sum != Summation::kDirect && !plan.family.widening
              ? promotion
              : 1.0);
}

double WidenCycles(const Plan& plan) {
  if (!plan.family.widening) return 0;
  const Config& config = plan.config;
  const bool hidden =
      config.schedule == Schedule::kCooperative && config.consumers > 1;
  return (hidden ? kWidenCyclesHidden : kWidenCyclesAlone) +
         kWidenCyclesOfBlock * (BlocksOfConsumer(config) - 1);
}

// Of a stage, on average, of interleaved consumers: each waits as long as one
// alone, but they wait side by side.
double InterleavedCyclesPerStage(const Plan& plan) {
  const double issued =
      kWidenCyclesIssued +
      kWidenCyclesIssuedOfBlock * (BlocksOfConsumer(plan.config) - 1);
  return std::max(WidenCycles(plan) / plan.config.consumers, issued) +
         kInterleavedShare * CyclesPerStage(plan);
}

// Bytes of X and Y.
double OperandBytes(const Plan& plan) {
  const double depth = static_cast<double>(DepthBytes(plan));
  const double x_share =
      plan.family.widening ? BitsOf(plan.family.widening->from) / 16.0 : 1.0;
  return static_cast<double>(plan.batch) * depth *
         (static_cast<double>(plan.rows) * x_share +
          static_cast<double>(plan.columns));
}

double EpilogueCycles(const Plan& plan) {
  const Config& config = plan.config;
  const int columns = SlabColumns(plan.family, config);
  const int slabs =
      config.tile_m / kInstructionM * Slabs(config.tile_n, columns);
  const double bytes =
      double{1} * slabs * kInstructionM * columns *
      BytesOf(StagedType(plan.family, config)) *
      (plan.family.epilogue.reads_c && !config.split_k ? 2 : 1);
  return slabs * kSlabCycles / config.consumers + bytes / kStoreBytesPerCycle;
}

}  // namespace

double Waves(const Plan& plan, const DeviceProperties& device) {
  if (plan.balanced_units == 0) {
    return static_cast<double>(DivideUp(Units(plan) * ClusterCtas(plan.config),
                                        device.multiprocessors));
  }
  return static_cast<double>(Units(plan)) /
         static_cast<double>(Workers(plan, device));
}

double PredictCycles(const Plan& plan, const DeviceProperties& device) {
  const Config& config = plan.config;
  if (plan.splits == 0) return kReduceCycles;
  const double waves = Waves(plan, device);
  const int passes = plan.a_form == Form::kSplit ? kSplitPasses : 1;
  const auto stages = static_cast<double>(DivideUp(
      passes * DivideUp(DepthBytes(plan), kSwizzleBytes), plan.splits));
  const double multiply =
      config.schedule == Schedule::kInterleaved
          ? stages * config.consumers * InterleavedCyclesPerStage(plan)
          : stages * (CyclesPerStage(plan) + WidenCycles(plan));
  // Operands come from device memory once; per wave.
  const double read =
      OperandBytes(plan) * passes / waves /
      (plan.family.widening ? kWeightBytesPerCycle : kMemoryBytesPerCycle);
  const double overlap_cost =
      config.schedule == Schedule::kInterleaved ? 0 : kOverlapCost;
  const double main_loop =
      std::max(multiply, read) + overlap_cost * std::min(multiply, read);
  const double epilogue = EpilogueCycles(plan) / config.cluster;
  const double pass = plan.balanced_units == 0
                          ? 0
                          : kPassCycles + 4.0 * config.tile_m * config.tile_n /
                                              kPassBytesPerCycle;
  if (config.schedule == Schedule::kPingPong) {
    // An epilogue overlaps the next main loop; the last one does not.
    return kFillCycles + kPingPongCycles +
           waves * std::max(main_loop, epilogue / 2) + epilogue + pass;
  }
  double cycles = kFillCycles + waves * (main_loop + epilogue) + 2 * pass;
  if (config.cluster > 1) {
    cycles += kClusterCycles +
              4.0 * config.tile_m * config.tile_n / kClusterBytesPerCycle;
  }
  if (config.split_k) {
    const double bytes = 4.0 * static_cast<double>(plan.rows * plan.columns *
                                                   plan.batch * plan.splits);
    cycles += kReduceCycles + bytes / kReduceBytesPerCycle;
  }
  return cycles;
}

double PredictGroupCycles(const Plan& plan,
                          absl::Span<const GroupedProduct> products,
                          const DeviceProperties& device) {
  Plan one = plan;
  const double stage = CyclesPerStage(one) + WidenCycles(one);
  const double epilogue = EpilogueCycles(one);
  const bool ping_pong = one.config.schedule == Schedule::kPingPong;
  const int passes = one.a_form == Form::kSplit ? kSplitPasses : 1;
  double units = 0, work = 0, longest = 0, read = 0;
  for (const GroupedProduct& product : products) {
    one.rows = one.exchanged ? product.n : product.m;
    one.columns = one.exchanged ? product.m : product.n;
    one.depth = product.k;
    one.batch = product.count;
    const auto stages =
        static_cast<double>(passes * DivideUp(DepthBytes(one), kSwizzleBytes));
    // Another tile's main loop overlaps the epilogue of ping-pong consumers.
    const double unit = ping_pong ? std::max(stages * stage, epilogue / 2)
                                  : stages * stage + epilogue;
    const auto tiles = static_cast<double>(Tiles(one));
    units += tiles;
    work += tiles * unit;
    longest = std::max(longest, unit);
    read += OperandBytes(one) * passes / kMemoryBytesPerCycle;
  }
  // As many as there are SMs at a time, the longest first.
  const double waves = std::ceil(units / device.multiprocessors);
  const double multiply = std::max(waves * work / units, longest);
  return kFillCycles + (ping_pong ? kPingPongCycles + epilogue : 0) +
         std::max(multiply, read) + kOverlapCost * std::min(multiply, read);
}

}  // namespace gemmd::jit
