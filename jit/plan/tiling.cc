#include "jit/plan/tiling.h"

#include <array>
#include <cstdint>

namespace gemmd::jit {
namespace {

// Consumers that share the rows of a tile.
int Sharers(const Config& config) {
  return config.schedule == Schedule::kCooperative ? config.consumers : 1;
}

// Of a CTA, on every device of sm_90.
constexpr int kMostSharedMemoryBytes = 227 << 10;

// Columns of a slab by store, bytes of an element, whether slabs may overlap and
// width of the tile, of CTAs that share no tile. The planner asks for hundreds.
constexpr int kStores = 2, kSizes = 3, kWidths = 32;
constexpr int At(Store store, int bytes, bool may_overlap, int tile_n) {
  const int row = (static_cast<int>(store) * kSizes + bytes / 2) * 2;
  return (row + may_overlap) * kWidths + tile_n / 8 - 1;
}
constexpr auto kSlabColumns = [] {
  std::array<uint8_t, kStores * kSizes * 2 * kWidths> columns = {};
  for (const Store store : {Store::kNormal, Store::kTransposed}) {
    for (const int bytes : {1, 2, 4}) {
      for (const bool may_overlap : {false, true}) {
        for (int tile_n = 8; tile_n <= 8 * kWidths; tile_n += 8) {
          columns[At(store, bytes, may_overlap, tile_n)] =
              gemmd::SlabColumns(store, tile_n, bytes, may_overlap);
        }
      }
    }
  }
  return columns;
}();

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
  const Store store = family.epilogue.store;
  const int bytes = BytesOf(StagedType(family, config));
  if (config.cluster == 1) {
    const bool may_overlap = !StagesC(family, config);
    return kSlabColumns[At(store, bytes, may_overlap, config.tile_n)];
  }
  return gemmd::SlabColumns(
      store, config.tile_n, bytes, false,
      MostSlabColumns(config.cluster, config.tile_m, config.tile_n, bytes));
}

int SlabLineBytes(const Family& family, const Config& config) {
  return gemmd::SlabLineBytes(family.epilogue.store,
                              SlabColumns(family, config),
                              BytesOf(StagedType(family, config)));
}

int SlabBuffers(const Family& family, const Config& config) {
  if (!StagesC(family, config)) return kSlabBuffers;
  int buffers = kMostSlabBuffers;
  while (buffers > kSlabBuffers &&
         SharedMemoryBytes(family, config, buffers) > kMostSharedMemoryBytes) {
    --buffers;
  }
  return buffers;
}

int SharedMemoryBytes(const Family& family, const Config& config,
                      int slab_buffers) {
  const int columns = SlabColumns(family, config);
  const int slab =
      columns * kInstructionM * BytesOf(StagedType(family, config));
  return config.stages * StageBytes(family, config) +
         slab_buffers * Writers(config.schedule, config.consumers) * slab +
         HandedBytes(config.schedule, config.consumers, config.tile_m,
                     config.tile_n) +
         ClusterBytes(config.cluster, config.tile_m, config.tile_n, columns) +
         BarrierBytes(config.stages, config.consumers, slab_buffers);
}

int SharedMemoryBytes(const Family& family, const Config& config) {
  return SharedMemoryBytes(family, config, SlabBuffers(family, config));
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
