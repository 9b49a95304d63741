#include "jit/plan/tiling.h"

namespace gemmd::jit {
namespace {

// Larger slabs leave too little room for four stages of the largest tiles.
constexpr int kMaxSlabBytes = 104 * kSwizzleBytes;

int LargestDivisor(int n, int unit, int limit) {
  int best = unit;
  for (int d = unit; d <= n && d <= limit; d += unit) {
    if (n % d == 0) best = d;
  }
  return best;
}

int PowerOfTwoDivisor(int n, int limit) {
  int best = 1;
  while (2 * best <= limit && n % (2 * best) == 0) best *= 2;
  return best;
}

}  // namespace

int OperandTileBytes(Major major, int lines) {
  const int whole =
      major == Major::kK ? lines : (lines + kTileK - 1) / kTileK * kTileK;
  return whole * kSwizzleBytes;
}

int StageBytes(const Family& family, const Config& config) {
  return OperandTileBytes(family.x_major, config.tile_m) +
         OperandTileBytes(family.y_major, config.tile_n);
}

DataType StagedType(const Family& family, const Config& config) {
  return config.split_k ? DataType::kF32 : family.output;
}

int SlabColumns(const Family& family, const Config& config) {
  const int bytes = BytesOf(StagedType(family, config));
  return family.store == Store::kTransposed
             ? LargestDivisor(config.tile_n, 8,
                              kMaxSlabBytes / (kInstructionM * bytes))
             : PowerOfTwoDivisor(config.tile_n, kSwizzleBytes / bytes);
}

int SharedMemoryBytes(const Family& family, const Config& config) {
  const int slab = SlabColumns(family, config) * kInstructionM *
                   BytesOf(StagedType(family, config));
  const int staging = 2 * config.consumers * slab;
  // Those of the ring, of each consumer's epilogue, and of ping-pong turns.
  const int barriers = 16 * (config.stages + config.consumers + 1);
  return config.stages * StageBytes(family, config) + staging + barriers;
}

int Accumulators(const Config& config) {
  const int sharers =
      config.schedule == Schedule::kPingPong ? 1 : config.consumers;
  return config.tile_m / sharers * config.tile_n / kWarpgroupThreads;
}

}  // namespace gemmd::jit
