// Host twin of what tests use of templates/ptx/convert.h.
#pragma once

#include <bit>

#include "common/types.h"
#include "service/host/numbers.h"

namespace gemmd::ptx {

inline float AsFloat(uint32 bits) { return std::bit_cast<float>(bits); }

template <typename T>
uint32 Pack(float first, float second) {
  return host::ToBf16(first) | uint32{host::ToBf16(second)} << 16;
}

struct Pair {
  float first;
  float second;
};

template <typename T>
Pair Unpack(uint32 packed) {
  return {AsFloat(packed << 16), AsFloat(packed & 0xffff0000)};
}

}  // namespace gemmd::ptx
