// The split form of f32 (templates/kernels/prepare/split.cu): the high, middle
// and low parts of an element, each a bf16. Pure function.
#ifndef GEMMD_SERVICE_HOST_HOPPER_SPLIT_H_
#define GEMMD_SERVICE_HOST_HOPPER_SPLIT_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "service/host/numbers.h"

namespace gemmd::host {

struct Parts {
  float plane[3];
};

inline Parts SplitF32(float element) {
  float high = FromBf16(ToBf16(element));
  if (std::isinf(high) && !std::isinf(element)) {
    high = FromBf16(std::bit_cast<uint32_t>(element) >> 16);
  }
  if (!std::isfinite(element)) return {{high, 0, 0}};
  // What a part leaves is exact in f32.
  const float left = element - high;
  const float middle = FromBf16(ToBf16(left));
  return {{high, middle, FromBf16(ToBf16(left - middle))}};
}

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_HOPPER_SPLIT_H_
