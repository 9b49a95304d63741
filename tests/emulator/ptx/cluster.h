// Emulated twin of templates/ptx/cluster.h.
#pragma once

#include "common/types.h"
#include "tests/emulator/machine/isa.h"

namespace gemmd::ptx {

inline uint32 ClusterRank() { return emulator::isa::ClusterRank(); }
inline void ArriveCluster() { emulator::isa::ArriveCluster(); }
inline void WaitCluster() { emulator::isa::WaitCluster(); }

inline uint32 PeerAddress(uint32 address, uint32 rank) {
  return emulator::isa::PeerAddress(address, rank);
}

inline void ArriveAtPeer(uint32 barrier) {
  emulator::isa::ArriveAtPeer(barrier);
}

inline void WaitForPeers(uint32 barrier, uint32 parity) {
  emulator::isa::Wait(barrier, parity);
}

inline void SendToPeer(uint32 to, uint32 barrier, const float* words) {
  for (int i = 0; i < 4; ++i) emulator::isa::CheckFloat(words[i]);
  emulator::isa::SendToPeer(to, barrier, words);
}

inline void SendToPeer(uint32 to, uint32 barrier, const int* words) {
  for (int i = 0; i < 4; ++i) emulator::isa::CheckInteger(words[i]);
  emulator::isa::SendToPeer(to, barrier, words);
}

}  // namespace gemmd::ptx
