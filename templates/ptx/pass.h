// Words that one CTA writes to device memory and another one of the same grid
// reads, and flags that say so.
#pragma once

#include "common/types.h"

namespace gemmd::ptx {

inline void StorePair(float* to, float first, float second) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(first),
               "f"(second)
               : "memory");
}
inline void StorePair(int* to, int first, int second) {
  asm volatile("st.global.v2.s32 [%0], {%1, %2};" ::"l"(to), "r"(first),
               "r"(second)
               : "memory");
}
inline void StorePair(uint32* to, uint32 first, uint32 second) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(first),
               "r"(second)
               : "memory");
}

inline void LoadPair(const float* from, float& first, float& second) {
  asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];"
               : "=f"(first), "=f"(second)
               : "l"(from)
               : "memory");
}
inline void LoadPair(const int* from, int& first, int& second) {
  asm volatile("ld.global.cg.v2.s32 {%0, %1}, [%2];"
               : "=r"(first), "=r"(second)
               : "l"(from)
               : "memory");
}
inline void LoadPair(const uint32* from, uint32& first, uint32& second) {
  asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];"
               : "=r"(first), "=r"(second)
               : "l"(from)
               : "memory");
}

// By one lane, after its warp has met: what the warp wrote before is seen by
// whoever waits for the flag, and by those that he meets then.
inline void RaiseFlag(uint32* flag) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(1)
               : "memory");
}

inline void WaitForFlag(uint32* flag) {
  uint32 raised;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(raised)
                 : "l"(flag)
                 : "memory");
  } while (raised == 0);
}

// For the next grid.
inline void LowerFlag(uint32* flag) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(flag), "r"(0) : "memory");
}

}  // namespace gemmd::ptx
