// Emulated twin of templates/ptx/thread.h, and the words of CUDA C++ that
// kernels use outside of ptx/.
#pragma once

#include <bit>

#include "common/types.h"
#include "tests/emulator/machine/isa.h"

#define __global__ __attribute__((visibility("default")))
#define __grid_constant__
#define __launch_bounds__(...)

namespace gemmd::ptx {

inline uint32 ThreadIndex() { return emulator::isa::ThreadIndex(); }
inline uint32 CtaIndex() { return emulator::isa::CtaIndex(); }
inline uint32 CtaCount() { return emulator::isa::CtaCount(); }

inline uint32 Broadcast(uint32 value) {
  return emulator::isa::Shuffle(value, 0);
}

template <typename T>
inline T OfGroup(T value, int from, int bits) {
  const int lane = static_cast<int>(emulator::isa::ThreadIndex()) % 32;
  return std::bit_cast<T>(emulator::isa::Shuffle(
      std::bit_cast<uint32>(value), (lane >> bits << bits) + from));
}

inline int Opaque(int value) { return value; }

inline bool ElectOne() { return emulator::isa::Elect(); }

inline void SyncCta() { emulator::isa::SyncCta(); }
inline void SyncWarp() { emulator::isa::SyncWarp(); }

template <int kBarrier, int kThreads>
inline void SyncThreads() {
  emulator::isa::SyncThreads(kBarrier, kThreads);
}

}  // namespace gemmd::ptx
