// The tensor memory accelerator: copies of boxes between matrices described
// by tensor maps and shared memory. Coordinates are in elements, the
// contiguous dimension first, and the number of the matrix; what lies outside
// the matrix is read as zero and not written. PTX ISA, cp.async.bulk.tensor.
#pragma once

#include "common/arguments.h"
#include "common/types.h"
#include "ptx/delay.h"

namespace gemmd::ptx {

inline void PrefetchTensorMap(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Box at (x, y) of matrix z to shared memory; its bytes complete on `barrier`.
inline void LoadBox(uint32 to, const TensorMap* map, int x, int y, int z,
                    uint32 barrier) {
  Delay();
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

// The same to that place in the shared memory of the CTAs 0, 1, ... of the
// cluster that have a bit in `ctas`; in each the bytes complete on the barrier
// at that place.
inline void LoadBoxToCtas(uint32 to, const TensorMap* map, int x, int y, int z,
                          uint32 barrier, unsigned short ctas) {
  Delay();
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(ctas)
      : "memory");
}

// Box from shared memory to (x, y) of matrix z, part of the current store
// group.
inline void StoreBox(const TensorMap* map, int x, int y, int z, uint32 from) {
  Delay();
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
      "[%0, {%1, %2, %3}], [%4];" ::"l"(map),
      "r"(x), "r"(y), "r"(z), "r"(from)
      : "memory");
}

// The same of what is not read soon: leaves L2 before what is kept there.
inline void StoreBoxStreaming(const TensorMap* map, int x, int y, int z,
                              uint32 from) {
  Delay();
  asm volatile(
      "{\n\t.reg .b64 policy;\n\t"
      "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n\t"
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group"
      ".L2::cache_hint [%0, {%1, %2, %3}], [%4], policy;\n\t}" ::"l"(map),
      "r"(x), "r"(y), "r"(z), "r"(from)
      : "memory");
}

// Closes the current store group.
inline void CommitStores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until this thread's store groups have read their shared memory.
inline void WaitStoresRead() {
  Delay();
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

}  // namespace gemmd::ptx
