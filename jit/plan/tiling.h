// What a config implies for sizes in shared memory: the host twin of
// templates/common/tiling.h, which refuses to compile when they disagree.
// Pure functions.
#ifndef GEMMD_JIT_PLAN_TILING_H_
#define GEMMD_JIT_PLAN_TILING_H_

#include "jit/plan/plan.h"

namespace gemmd::jit {

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kInstructionM = 64;  // Rows of every wgmma.
inline constexpr int kSwizzleBytes = 128;
// Lines of k in a stage: one swizzle span of a 16-bit type.
inline constexpr int kTileK = 64;

// Bytes of one operand in a stage. An mn-major tile is made of slabs of 64
// lines, so its last slab may be partly unused.
int OperandTileBytes(Major major, int lines);

// Bytes of one stage of the ring.
int StageBytes(const Family& family, const Config& config);

// What the epilogue stages and stores: elements of D, or f32 partial sums.
DataType StagedType(const Family& family, const Config& config);

// Columns of P that the epilogue stages and stores at once.
int SlabColumns(const Family& family, const Config& config);

// Dynamic shared memory of a CTA.
int SharedMemoryBytes(const Family& family, const Config& config);

// Accumulator registers per consumer thread.
int Accumulators(const Config& config);

// Threads of a CTA: one producer warpgroup and the consumers.
inline int Threads(const Config& config) {
  return kWarpgroupThreads * (1 + config.consumers);
}

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_TILING_H_
