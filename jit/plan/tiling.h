// What a config of a family implies for sizes: templates/common/geometry.h in
// the planner's terms. Pure functions.
#ifndef GEMMD_JIT_PLAN_TILING_H_
#define GEMMD_JIT_PLAN_TILING_H_

#include "jit/plan/plan.h"

namespace gemmd::jit {

// Bytes of one stage of the ring.
int StageBytes(const Family& family, const Config& config);

// What the epilogue stages and stores: elements of D, or partial sums.
DataType StagedType(const Family& family, const Config& config);

// Whether the copy engine brings C into the buffers that D leaves from. A C
// of another type is read by a step, and so is that of a split product.
bool StagesC(const Family& family, const Config& config);

// Columns of P that the epilogue stages and stores at once, and the bytes of
// a line of its boxes.
int SlabColumns(const Family& family, const Config& config);
int SlabLineBytes(const Family& family, const Config& config);

// Buffers of slabs that each writer has: more than two where C is staged and
// the stages of the ring leave room.
int SlabBuffers(const Family& family, const Config& config);

// Dynamic shared memory of a CTA, with so many of them.
int SharedMemoryBytes(const Family& family, const Config& config,
                      int slab_buffers);
int SharedMemoryBytes(const Family& family, const Config& config);

// Blocks of 64 rows that a consumer multiplies.
int BlocksOfConsumer(const Config& config);

// Sums of one consumer thread, and the registers that hold them.
int SumsPerThread(const Config& config);
// Registers of a thread that hold a widened X.
int XRegisters(const Family& family, const Config& config);
int SumRegisters(const Family& family, const Config& config);

// Whether the kernel's epilogue has so much to do that it needs registers of
// its own beside the sums. That of a split product runs in the reduction.
bool HasManySteps(const Family& family, const Config& config);

// Threads of a CTA: one producer warpgroup and the consumers.
inline int Threads(const Config& config) {
  return kWarpgroupThreads * (1 + config.consumers);
}

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_TILING_H_
