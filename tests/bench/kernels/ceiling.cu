// What the tensor cores of a device can do at most: two warpgroups per CTA
// multiply random tiles that stay in shared memory. kInput is defined in front
// of this file.
#include "common/tiling.h"
#include "ptx/fence.h"
#include "ptx/shared.h"
#include "ptx/thread.h"
#include "ptx/wgmma.h"

namespace gemmd::bench {

constexpr int kN = kCeilingN;
constexpr int kStages = 4;
constexpr int kXBytes = 2 * 64 * 128;  // One tile of 64 lines per warpgroup.
constexpr int kYBytes = kN * 128;
constexpr int kStageBytes = kXBytes + kYBytes;
static_assert(kStages * kStageBytes == kCeilingSharedBytes);

constexpr int kPerWord = 4 / BytesOf(kInput);

using Instruction = ptx::Wgmma;

// k-major, swizzled over 128 bytes: see pipeline/operand_tile.h.
uint64 Descriptor(uint32 address) {
  return uint64{1} << 62 | uint64{64} << 32 | uint64{1} << 16 |
         (address & 0x3ffff) >> 4;
}

// Of Y's descriptor: 32 bytes of k, or 64, which two of four instructions read
// again.
constexpr int kYStep = GEMMD_SPARSE ? 4 : 2;

void Multiply(Instruction::Register (&sums)[Instruction::kRegisters], uint64 x,
              uint64 y, int accumulate) {
#if GEMMD_SPARSE
  constexpr int kPatterns = 0x44444444;
  Instruction::Issue<0>(sums, x, y, kPatterns, accumulate);
#else
  Instruction::Issue(sums, x, y, accumulate);
#endif
}

}  // namespace gemmd::bench

extern "C" __global__ void __launch_bounds__(gemmd::bench::kThreads, 1)
    gemmd_kernel(const __grid_constant__ gemmd::bench::CeilingArguments a) {
  using namespace gemmd;
  using namespace gemmd::bench;
  const uint32 shared = ptx::SharedBase();
  const int thread = ptx::ThreadIndex();
  const int warpgroup = ptx::Broadcast(thread / kWarpgroupThreads);

  for (int i = thread; i < kStages * kStageBytes / 4; i += kThreads) {
    unsigned word = 0;
    for (int j = 0; j < kPerWord; ++j) {
      word |= Encode(kInput, RandomValue(a.seed, kPerWord * i + j))
              << (32 / kPerWord * j);
    }
    ptx::StoreShared(shared + 4 * i, static_cast<int>(word));
  }
  ptx::FenceAsyncShared();
  ptx::SyncCta();

  Instruction::Register sums[Instruction::kRegisters];
  for (int i = 0; i < a.iterations; ++i) {
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      const uint32 base = shared + stage * kStageBytes;
      const uint64 x = Descriptor(base + warpgroup * kXBytes / 2);
      const uint64 y = Descriptor(base + kXBytes);
      ptx::WgmmaFence();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        Multiply(sums, x + 2 * step, y + kYStep * step % 8, i + stage + step);
      }
      ptx::WgmmaCommit();
      ptx::WgmmaWait<1>();
    }
  }
  ptx::WgmmaWait<0>();
  Instruction::Register sum = 0;
#pragma unroll
  for (const auto value : sums) sum += value;
  a.sums[ptx::CtaIndex() * kThreads + thread] = static_cast<float>(sum);
}
