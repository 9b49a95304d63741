// Emulated twin of templates/ptx/registers.h.
#pragma once

#include "tests/emulator/machine/isa.h"

namespace gemmd::ptx {

template <int kRegisters>
inline void GiveRegisters() {
  emulator::isa::GiveRegisters(kRegisters);
}

template <int kRegisters>
inline void TakeRegisters() {
  emulator::isa::TakeRegisters(kRegisters);
}

}  // namespace gemmd::ptx
