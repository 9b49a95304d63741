// Bytes and bits of registers in another order.
#pragma once

#include "common/types.h"

namespace gemmd::ptx {

// Byte i of the result is byte `selector >> 4 i & 7` of high:low.
inline uint32 PermuteBytes(uint32 low, uint32 high, uint32 selector) {
  return __byte_perm(low, high, selector);
}

}  // namespace gemmd::ptx
