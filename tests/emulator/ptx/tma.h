// Emulated twin of templates/ptx/tma.h.
#pragma once

#include "common/arguments.h"
#include "common/types.h"
#include "tests/emulator/machine/isa.h"

namespace gemmd::ptx {

inline void PrefetchTensorMap(const TensorMap* map) {
  emulator::isa::Prefetch(map);
}

inline void LoadBox(uint32 to, const TensorMap* map, int x, int y, int z,
                    uint32 barrier) {
  emulator::isa::LoadBox(to, map, x, y, z, barrier);
}

inline void LoadBoxToCtas(uint32 to, const TensorMap* map, int x, int y, int z,
                          uint32 barrier, unsigned short ctas) {
  emulator::isa::LoadBoxToCtas(to, map, x, y, z, barrier, ctas);
}

inline void StoreBox(const TensorMap* map, int x, int y, int z, uint32 from) {
  emulator::isa::StoreBox(map, x, y, z, from);
}

inline void StoreBoxStreaming(const TensorMap* map, int x, int y, int z,
                              uint32 from) {
  StoreBox(map, x, y, z, from);
}

inline void CommitStores() { emulator::isa::CommitStores(); }
inline void WaitStoresRead() { emulator::isa::WaitStoresRead(); }

}  // namespace gemmd::ptx
