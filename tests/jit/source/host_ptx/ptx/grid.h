// Host twin of templates/ptx/grid.h: grids run one after the other.
#pragma once

namespace gemmd::ptx {

inline void LaunchDependents() {}
inline void WaitForDependencies() {}

}  // namespace gemmd::ptx
