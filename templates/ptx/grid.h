// Programmatic dependent launch: overlap of a grid's start with the end of
// the grid before it. Both do nothing in an ordinary launch.
#pragma once

#include "ptx/delay.h"

namespace gemmd::ptx {

// Lets the next grid of the stream start its prologue.
inline void LaunchDependents() {
  Delay();
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Waits until the grids before this one are complete and their writes
// visible. Before it, nothing of theirs may be touched.
inline void WaitForDependencies() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  Delay();
}

}  // namespace gemmd::ptx
