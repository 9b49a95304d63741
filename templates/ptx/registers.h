// Moving registers between warpgroups. Executed by all warps of a warpgroup.
#pragma once

namespace gemmd::ptx {

template <int kRegisters>
inline void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
inline void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace gemmd::ptx
