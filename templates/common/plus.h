// How sums of parts of k are added: those in s32 wrap.
#pragma once

#include "common/types.h"

namespace gemmd {

inline float Plus(float a, float b) { return a + b; }
inline int Plus(int a, int b) {
  return static_cast<int>(static_cast<uint32>(a) + static_cast<uint32>(b));
}

}  // namespace gemmd
