// Identity of the executing thread, and barriers among some of a CTA's warps.
#pragma once

#include "common/types.h"
#include "ptx/delay.h"

namespace gemmd::ptx {

inline uint32 ThreadIndex() { return threadIdx.x; }
inline uint32 CtaIndex() { return blockIdx.x; }
inline uint32 CtaCount() { return gridDim.x; }

// The value of the first lane, known to the compiler to be the same in the
// whole warp.
inline uint32 Broadcast(uint32 value) {
  return __shfl_sync(0xffffffff, value, 0);
}

// The value of the lane numbered `from` of the executing lane's group: 2^bits
// neighbours of a converged warp.
template <typename T>
inline T OfGroup(T value, int from, int bits) {
  return __shfl_sync(0xffffffff, value, from, 1 << bits);
}

// The same value, of which the compiler knows nothing: what is computed from it
// is computed after this.
inline int Opaque(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// True in one thread of a converged warp, always the same one. The compiler
// knows as much, so that what only one thread may do needs no loop over lanes.
inline bool ElectOne() {
  uint32 elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected));
  return elected;
}

inline void SyncCta() { __syncthreads(); }
inline void SyncWarp() { __syncwarp(); }

// Waits until kThreads threads arrived at the hardware barrier kBarrier (1 to
// 15; 0 is SyncCta's).
template <int kBarrier, int kThreads>
inline void SyncThreads() {
  Delay();
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

}  // namespace gemmd::ptx
