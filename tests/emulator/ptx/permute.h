// Emulated twin of templates/ptx/permute.h.
#pragma once

#include "common/types.h"

namespace gemmd::ptx {

inline uint32 PermuteBytes(uint32 low, uint32 high, uint32 selector) {
  const uint64 both = uint64{high} << 32 | low;
  uint32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32 byte = selector >> 4 * i & 7;
    result |= static_cast<uint32>(both >> 8 * byte & 0xff) << 8 * i;
  }
  return result;
}

}  // namespace gemmd::ptx
