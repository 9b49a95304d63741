// Accesses of global memory in words of 16 bytes.
#pragma once

#include "common/types.h"

namespace gemmd::ptx {

struct alignas(16) Word {
  uint32 part[4];
};

// Read once: not kept in L1.
inline Word LoadStreaming(const Word* from) {
  Word word;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word.part[0]), "=r"(word.part[1]), "=r"(word.part[2]),
                 "=r"(word.part[3])
               : "l"(from));
  return word;
}

// Written by an earlier grid.
inline Word Load(const Word* from) {
  Word word;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word.part[0]), "=r"(word.part[1]), "=r"(word.part[2]),
                 "=r"(word.part[3])
               : "l"(from));
  return word;
}

// The 32 bits that start `bits` (0 to 31) bits into high:low.
inline uint32 FunnelShift(uint32 low, uint32 high, uint32 bits) {
  return __funnelshift_r(low, high, bits);
}

}  // namespace gemmd::ptx
