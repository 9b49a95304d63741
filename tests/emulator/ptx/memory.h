// Emulated twin of templates/ptx/memory.h.
#pragma once

#include "common/types.h"
#include "tests/emulator/machine/isa.h"

namespace gemmd::ptx {

struct alignas(16) Word {
  uint32 part[4];
};

inline Word Load(const Word* from) {
  emulator::isa::TouchGlobal(from);
  return *from;
}

inline Word LoadStreaming(const Word* from) { return Load(from); }

inline uint32 FunnelShift(uint32 low, uint32 high, uint32 bits) {
  return static_cast<uint32>((uint64{high} << 32 | low) >> bits);
}

}  // namespace gemmd::ptx
