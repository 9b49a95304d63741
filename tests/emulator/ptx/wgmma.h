// Emulated twin of templates/ptx/wgmma.h. The instruction itself is generated
// with each instance (host_source.h).
#pragma once

#include "common/types.h"
#include "tests/emulator/machine/isa.h"

namespace gemmd::ptx {

struct Wgmma;

inline void WgmmaFence() { emulator::isa::WgmmaFence(); }
inline void WgmmaCommit() { emulator::isa::WgmmaCommit(); }

template <int kPending>
inline void WgmmaWait() {
  emulator::isa::WgmmaWait(kPending);
}

inline void Hold(const uint32 (&)[4], uint32) {}
inline void Hold(int, uint32) {}

}  // namespace gemmd::ptx
