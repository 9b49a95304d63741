// Clusters: CTAs that run at the same time and reach each other's shared
// memory. PTX ISA, barrier.cluster, mapa, st.async, mbarrier.
#pragma once

#include "common/types.h"
#include "ptx/delay.h"

namespace gemmd::ptx {

// Number of the CTA in its cluster.
inline uint32 ClusterRank() {
  uint32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Every thread arrives once and waits once: past the wait, all CTAs of the
// cluster run, and what was made known to it by FenceBarrierInit before they
// arrived is there. (An arrival that releases all else takes half a
// microsecond.)
inline void ArriveCluster() {
  Delay();
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

inline void WaitCluster() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
  Delay();
}

// The place in the shared memory of the CTA numbered `rank` that `address` is
// in this one's.
inline uint32 PeerAddress(uint32 address, uint32 rank) {
  uint32 peer;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(peer)
               : "r"(address), "r"(rank));
  return peer;
}

// Arrives at a barrier of a peer, and waits at one that peers arrive at.
// Neither orders anything but barriers: who arrives has waited for what it
// tells of, and who waits goes on with copies of the copy engine. (Release and
// acquire of a cluster cost a microsecond each.)
inline void ArriveAtPeer(uint32 barrier) {
  Delay();
  asm volatile(
      "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(
          barrier)
      : "memory");
}

inline void WaitForPeers(uint32 barrier, uint32 parity) {
  Delay();
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 "
      "done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
  Delay();
}

// Four words to shared memory of a CTA of the cluster, asynchronously; their
// 16 bytes complete on `barrier`, which is there too.
inline void SendToPeer(uint32 to, uint32 barrier, const float* words) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
      "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "f"(words[0]), "f"(words[1]), "f"(words[2]), "f"(words[3]), "r"(barrier)
      : "memory");
}

inline void SendToPeer(uint32 to, uint32 barrier, const int* words) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.s32 "
      "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(barrier)
      : "memory");
}

}  // namespace gemmd::ptx
