// Emulated twin of templates/ptx/pass.h. CTAs run one after the other, in
// order, so that a flag that is not raised yet never will be.
#pragma once

#include "common/types.h"
#include "tests/emulator/machine/isa.h"

namespace gemmd::ptx {

template <typename T>
void StorePair(T* to, T first, T second) {
  emulator::isa::TouchGlobal(to);
  to[0] = first;
  to[1] = second;
}

template <typename T>
void LoadPair(const T* from, T& first, T& second) {
  emulator::isa::TouchGlobal(from);
  first = from[0];
  second = from[1];
}

inline void RaiseFlag(uint32* flag) {
  emulator::isa::TouchGlobal(flag);
  *flag = 1;
}

inline void WaitForFlag(const uint32* flag) {
  emulator::isa::TouchGlobal(flag);
  emulator::isa::WaitForFlag(*flag != 0);
}

inline void LowerFlag(uint32* flag) {
  emulator::isa::TouchGlobal(flag);
  *flag = 0;
}

}  // namespace gemmd::ptx
