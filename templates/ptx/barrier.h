// mbarrier: a phase completes when all expected arrivals came and all
// announced bytes landed. Barriers live in shared memory, 8 bytes each.
#pragma once

#include "common/types.h"
#include "ptx/delay.h"

namespace gemmd::ptx {

inline void InitBarrier(uint32 barrier, uint32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier),
               "r"(arrivals)
               : "memory");
}

inline void Arrive(uint32 barrier) {
  Delay();
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

// Arrives and announces bytes that asynchronous copies will deliver.
inline void ArriveExpecting(uint32 barrier, uint32 bytes) {
  Delay();
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
}

// Returns when the phase of the given parity has completed.
inline void Wait(uint32 barrier, uint32 parity) {
  Delay();
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
  Delay();
}

}  // namespace gemmd::ptx
