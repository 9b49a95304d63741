// Reductions: over the bits of a word, over a warp, in memory.
#pragma once

#include "common/types.h"

namespace gemmd::ptx {

inline uint32 SetBits(uint32 word) { return __popc(word); }

// By all lanes of a converged warp.
inline uint32 MaxOfWarp(uint32 value) {
  uint32 largest;
  asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;"
               : "=r"(largest)
               : "r"(value));
  return largest;
}

// The same.
inline uint32 SumOfWarp(uint32 value) {
  uint32 sum;
  asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;"
               : "=r"(sum)
               : "r"(value));
  return sum;
}

// *at = max(*at, value), atomically.
inline void RaiseTo(uint32* at, uint32 value) {
  asm volatile("red.global.max.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

}  // namespace gemmd::ptx
