// Emulated twin of templates/ptx/reduce.h. CTAs run one after the other, so
// that what is atomic between them is so here.
#pragma once

#include <bit>

#include "common/types.h"
#include "tests/emulator/machine/isa.h"

namespace gemmd::ptx {

inline uint32 SetBits(uint32 word) {
  return static_cast<uint32>(std::popcount(word));
}

inline uint32 MaxOfWarp(uint32 value) {
  return emulator::isa::MaxOfWarp(value);
}

inline uint32 SumOfWarp(uint32 value) {
  return emulator::isa::SumOfWarp(value);
}

inline void RaiseTo(uint32* at, uint32 value) {
  emulator::isa::TouchGlobal(at);
  if (value > *at) *at = value;
}

}  // namespace gemmd::ptx
