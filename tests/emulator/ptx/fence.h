// Emulated twin of templates/ptx/fence.h.
#pragma once

#include "tests/emulator/machine/isa.h"

namespace gemmd::ptx {

inline void FenceAsyncShared() { emulator::isa::FenceAsyncShared(); }
inline void AcquireTensorMap(const void* map) {
  emulator::isa::AcquireTensorMap(map);
}
inline void FenceBarrierInit() { emulator::isa::FenceBarrierInit(); }

}  // namespace gemmd::ptx
