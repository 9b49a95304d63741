#include "jit/plan/tiling.h"

namespace gemmd::jit {
namespace {

// Consumers that share the rows of a tile.
int Sharers(const Config& config) {
  return config.schedule == Schedule::kCooperative ? config.consumers : 1;
}

}  // namespace

int StageBytes(const Family& family, const Config& config) {
  int x = OperandTileBytes(family.x_major, config.tile_m);
  if (family.instruction.sparse) {
    x = SparseTileBytes(BitsOf(family.instruction.x), config.tile_m);
  } else if (family.widening) {
    const auto& [from, stage_groups, zero_points] = *family.widening;
    x = WidenedTileBytes(BitsOf(from), stage_groups, zero_points,
                         config.tile_m);
  }
  return x + OperandTileBytes(family.y_major, config.tile_n);
}

DataType StagedType(const Family& family, const Config& config) {
  if (!config.split_k) return family.epilogue.output;
  return family.instruction.accumulator == DataType::kS32 ? DataType::kS32
                                                          : DataType::kF32;
}

bool StagesC(const Family& family, const Config& config) {
  const TileEpilogue& epilogue = family.epilogue;
  return epilogue.reads_c && epilogue.c == epilogue.output && !config.split_k;
}

int SlabColumns(const Family& family, const Config& config) {
  const int bytes = BytesOf(StagedType(family, config));
  const bool may_overlap = !StagesC(family, config) && config.cluster == 1;
  return gemmd::SlabColumns(
      family.epilogue.store, config.tile_n, bytes, may_overlap,
      MostSlabColumns(config.cluster, config.tile_m, config.tile_n, bytes));
}

int SlabLineBytes(const Family& family, const Config& config) {
  return gemmd::SlabLineBytes(family.epilogue.store,
                              SlabColumns(family, config),
                              BytesOf(StagedType(family, config)));
}

int SharedMemoryBytes(const Family& family, const Config& config) {
  const int slab = SlabColumns(family, config) * kInstructionM *
                   BytesOf(StagedType(family, config));
  return config.stages * StageBytes(family, config) +
         2 * Writers(config.schedule, config.consumers) * slab +
         HandedBytes(config.schedule, config.consumers, config.tile_m,
                     config.tile_n) +
         ClusterBytes(config.cluster, config.tile_m, config.tile_n,
                      SlabColumns(family, config)) +
         BarrierBytes(config.stages, config.consumers);
}

int BlocksOfConsumer(const Config& config) {
  return config.tile_m / kInstructionM / Sharers(config);
}

int SumsPerThread(const Config& config) {
  return config.tile_m / Sharers(config) * config.tile_n / kWarpgroupThreads;
}

int XRegisters(const Family& family, const Config& config) {
  if (!family.widening) return 0;
  constexpr int kOfBlock = 16;
  // Interleaved consumers hold that of a stage ahead, if it is of one block.
  const int blocks = BlocksOfConsumer(config);
  const bool ahead = config.schedule == Schedule::kInterleaved && blocks == 1;
  return kOfBlock * (ahead ? 2 : blocks);
}

int SumRegisters(const Family& family, const Config& config) {
  const int sums = SumsPerThread(config);
  if (family.sum != Summation::kDirect) return 2 * sums;
  return family.instruction.accumulator == DataType::kF16 ? sums / 2 : sums;
}

bool HasManySteps(const Family& family, const Config& config) {
  constexpr int kMany = 3;
  const TileEpilogue& epilogue = family.epilogue;
  const int steps = (epilogue.row_scale != Extent::kNone) +
                    (epilogue.column_scale != Extent::kNone) +
                    (epilogue.bias != Side::kNone) +
                    (epilogue.activation != Activation::kNone) +
                    epilogue.exclusive_or + epilogue.alpha + epilogue.reads_c +
                    epilogue.auxiliary + epilogue.amax + epilogue.scales_output;
  return !config.split_k && steps >= kMany;
}

}  // namespace gemmd::jit
