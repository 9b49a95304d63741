// Delays, so that races show on a GPU: with GEMMD_DELAY_SEED defined, which
// only tests do, some of the places where threads meet asynchronous work take up
// to some microseconds, others none. Which, the seed and the clock decide.
#pragma once

#include "common/types.h"

namespace gemmd::ptx {

// Without branches, so that warps stay together.
inline void Delay() {
#ifdef GEMMD_DELAY_SEED
  uint32 hash;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(hash));
  hash = (hash ^ (GEMMD_DELAY_SEED * 0x9e3779b9u)) * 0x85ebca6bu;
  hash = (hash ^ hash >> 15) * 0xc2b2ae35u;
  const uint32 nanoseconds = hash % 8 == 0 ? hash >> 20 : 0;
  asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds) : "memory");
#endif
}

}  // namespace gemmd::ptx
