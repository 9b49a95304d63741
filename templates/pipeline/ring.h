// A ring of stages between one producer and its consumers. Each stage has a
// barrier that completes when it is full and one that completes when all
// consumers have released it. Every role walks the ring with its own cursor,
// in the same order.
//
// Rings of several CTAs of a cluster may go together: a copy into a stage is
// one into that stage of all of them, so it is free when all have released it.
#pragma once

#include "common/types.h"
#include "ptx/barrier.h"
#include "ptx/cluster.h"

namespace gemmd {

template <int kStages, int kCtas = 1>
class Ring {
 public:
  // Shared memory for the barriers.
  static constexpr int kBytes = 2 * kStages * 8;

  explicit Ring(uint32 barriers) : barriers_(barriers) {}

  // Once, by one thread, before any role starts.
  void Init(uint32 consumers) const {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::InitBarrier(full(stage), 1);
      ptx::InitBarrier(empty(stage), consumers * kCtas);
    }
  }

  // Producer: waits until the stage is free, then announces its bytes.
  void Acquire(uint32 bytes) const {
    WaitEmpty();
    ptx::ArriveExpecting(full(stage_), bytes);
  }

  // Producer: waits until all stages are free.
  void Drain() {
    for (int stage = 0; stage < kStages; ++stage) {
      WaitEmpty();
      Advance();
    }
  }

  // Consumer: waits until the stage is full.
  void WaitFull() const { ptx::Wait(full(stage_), phase_); }

  // Consumer, one thread: gives a stage back to the producer, or producers.
  void Release(uint32 stage) const {
    if constexpr (kCtas == 1) {
      ptx::Arrive(empty(stage));
    } else {
#pragma unroll
      for (int rank = 0; rank < kCtas; ++rank) {
        ptx::ArriveAtPeer(ptx::PeerAddress(empty(stage), rank));
      }
    }
  }

  void Advance() {
    if (++stage_ == kStages) {
      stage_ = 0;
      phase_ ^= 1;
    }
  }

  // Advances by `count` stages, which another consumer takes.
  void Skip(uint32 count) {
    const uint32 position = stage_ + count;
    phase_ ^= position / kStages & 1;
    stage_ = position % kStages;
  }

  uint32 stage() const { return stage_; }
  uint32 full(uint32 stage) const { return barriers_ + 16 * stage; }
  uint32 empty(uint32 stage) const { return barriers_ + 16 * stage + 8; }

 private:
  void WaitEmpty() const {
    if constexpr (kCtas == 1) {
      ptx::Wait(empty(stage_), phase_ ^ 1);
    } else {
      ptx::WaitForPeers(empty(stage_), phase_ ^ 1);
    }
  }

  const uint32 barriers_;
  uint32 stage_ = 0;
  uint32 phase_ = 0;
};

}  // namespace gemmd
