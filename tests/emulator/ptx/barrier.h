// Emulated twin of templates/ptx/barrier.h.
#pragma once

#include "common/types.h"
#include "tests/emulator/machine/isa.h"

namespace gemmd::ptx {

inline void InitBarrier(uint32 barrier, uint32 arrivals) {
  emulator::isa::InitBarrier(barrier, arrivals);
}

inline void Arrive(uint32 barrier) { emulator::isa::Arrive(barrier); }

inline void ArriveExpecting(uint32 barrier, uint32 bytes) {
  emulator::isa::ArriveExpecting(barrier, bytes);
}

inline void Wait(uint32 barrier, uint32 parity) {
  emulator::isa::Wait(barrier, parity);
}

}  // namespace gemmd::ptx
