#include "jit/plan/registers.h"

#include <algorithm>
#include <limits>

#include "jit/plan/tiling.h"

namespace gemmd::jit {
namespace {

// Beyond this many sums per thread ptxas spills; sooner when the epilogue has
// much to do besides.
constexpr int kAny = std::numeric_limits<int>::max();
constexpr int kMaxSumRegisters = 208;
constexpr int kMaxSumRegistersWithSteps = 128;
constexpr int kMaxSumRegistersWithManySteps = 96;
constexpr int kMaxSumRegistersWithCounts = 64;
constexpr int kMaxSumRegistersWithOutputs = 64;
constexpr int kMaxSumRegistersWithOutputsOfBytes = 40;
// Of elements of D that are packed into bytes across lanes.
constexpr int kMaxSumRegistersOfBytes = 144;
// Of three consumers, which have 160 each; by how much more there is to do than
// to store sums as they are.
constexpr int kMaxRegistersOfThree[] = {96, 56, 56, 40};
// Of four consumers.
constexpr int kMaxRegistersOfFour = 48;
constexpr int kMaxRegistersOfFourInterleaved = 96;
constexpr int kMaxRegistersOfFourInterleavedWithMore = 64;
constexpr int kMaxRegistersOfFourInterleavedBlocks = 80;
// Of interleaved consumers that fetch C: of two, and of four with weights that
// take two words an instruction.
constexpr int kMaxRegistersOfTwoWithC = 144;
constexpr int kMaxRegistersOfFourWithCOfBytes = 72;
// Fewer of sums that groups scale: where they leave as f32, and of two groups a
// stage.
constexpr int kRegistersOfF32 = 16;
constexpr int kRegistersOfGroups = 16;

bool WritesBytes(const TileEpilogue& epilogue) {
  return BitsOf(epilogue.output) == 8;
}

// Whether there are results besides D.
bool HasOutputs(const TileEpilogue& epilogue) {
  return epilogue.auxiliary || epilogue.amax;
}

// Whether the epilogue has more to do than alpha, C and counts.
bool HasSteps(const TileEpilogue& epilogue) {
  return epilogue.row_scale != Extent::kNone ||
         epilogue.column_scale != Extent::kNone ||
         epilogue.bias != Side::kNone || epilogue.scales_output ||
         epilogue.activation != Activation::kNone;
}

// Most registers of sums and X that a consumer's thread may have, whatever its
// epilogue.
int MostRegisters(const Family& family, const Config& config) {
  const bool interleaved = config.schedule == Schedule::kInterleaved;
  if (config.consumers > 3 && !interleaved) return kMaxRegistersOfFour;
  int most = kMaxSumRegisters;
  if (config.consumers > 3) {
    most = config.tile_m > kInstructionM ? kMaxRegistersOfFourInterleavedBlocks
                                         : kMaxRegistersOfFourInterleaved;
  }
  if (interleaved && StagesC(family, config)) {
    const bool bytes = BitsOf(family.widening->from) == 8;
    if (config.consumers < 3) most = kMaxRegistersOfTwoWithC;
    if (config.consumers > 3 && bytes) most = kMaxRegistersOfFourWithCOfBytes;
  }
  if (family.sum != Summation::kGroupScaled) return most;
  if (StagedType(family, config) == DataType::kF32) most -= kRegistersOfF32;
  if (interleaved && family.widening->stage_groups > 1) {
    most -= kRegistersOfGroups;
  }
  return most;
}

// Whether one of three consumers has them.
bool HasRegistersOfThree(const Family& family, const Config& config,
                         int registers) {
  const TileEpilogue& epilogue = family.epilogue;
  if (family.widening) return false;
  if (config.split_k) return registers <= kMaxRegistersOfThree[0];
  const int more = (HasSteps(epilogue) || epilogue.exclusive_or) +
                   WritesBytes(epilogue) +
                   (family.instruction.accumulator == DataType::kF16);
  return !HasOutputs(epilogue) && registers <= kMaxRegistersOfThree[more];
}

// Whether one of four consumers has them: few threads' worth, for X that takes
// time to fetch.
bool HasRegistersOfFour(const Family& family, const Config& config,
                        int registers) {
  const TileEpilogue& epilogue = family.epilogue;
  if (!family.widening) return false;
  if (config.split_k) return true;
  if (HasManySteps(family, config)) return false;
  const bool more = HasOutputs(epilogue) || WritesBytes(epilogue);
  return config.schedule != Schedule::kInterleaved || !more ||
         registers <= kMaxRegistersOfFourInterleavedWithMore;
}

// Most sums of one of two consumers whose epilogue works on them.
int MostSums(const Family& family, const Config& config) {
  const TileEpilogue& epilogue = family.epilogue;
  if (HasOutputs(epilogue)) {
    return WritesBytes(epilogue) ? kMaxSumRegistersWithOutputsOfBytes
                                 : kMaxSumRegistersWithOutputs;
  }
  const bool steps = HasSteps(epilogue);
  const bool bytes = WritesBytes(epilogue);
  if (epilogue.exclusive_or &&
      (steps || bytes || epilogue.reads_c || config.multicast > 1)) {
    return kMaxSumRegistersWithCounts;
  }
  if (HasManySteps(family, config) || (steps && bytes && epilogue.reads_c) ||
      (epilogue.exclusive_or && epilogue.store == Store::kTransposed)) {
    return kMaxSumRegistersWithManySteps;
  }
  return steps || epilogue.exclusive_or ? kMaxSumRegistersWithSteps : kAny;
}

}  // namespace

bool HasRegisters(const Family& family, const Config& config) {
  const TileEpilogue& epilogue = family.epilogue;
  const int registers =
      SumRegisters(family, config) + XRegisters(family, config);
  if (registers > MostRegisters(family, config)) return false;
  if (config.consumers == 3) {
    return HasRegistersOfThree(family, config, registers);
  }
  if (config.consumers > 3) {
    return HasRegistersOfFour(family, config, registers);
  }
  if (config.split_k) return true;
  if (WritesBytes(epilogue) && epilogue.store == Store::kTransposed &&
      std::max(registers, SumsPerThread(config)) > kMaxSumRegistersOfBytes) {
    return false;
  }
  // Of promoted sums those that the tensor core adds to are free by then; those
  // in f16 lie in pairs and are unpacked.
  int sums = registers;
  if (family.sum != Summation::kDirect) sums /= 2;
  if (family.instruction.accumulator == DataType::kF16) sums *= 3;
  return sums <= MostSums(family, config);
}

}  // namespace gemmd::jit
