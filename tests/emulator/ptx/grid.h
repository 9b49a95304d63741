// Emulated twin of templates/ptx/grid.h.
#pragma once

#include "tests/emulator/machine/isa.h"

namespace gemmd::ptx {

inline void LaunchDependents() { emulator::isa::LaunchDependents(); }
inline void WaitForDependencies() { emulator::isa::WaitForDependencies(); }

}  // namespace gemmd::ptx
