// A ring of stages between one producer and its consumers. Each stage has a
// barrier that completes when it is full and one that completes when all
// consumers have released it. Every role walks the ring with its own cursor,
// in the same order.
#pragma once

#include "common/types.h"
#include "ptx/barrier.h"

namespace gemmd {

template <int kStages>
class Ring {
 public:
  // Shared memory for the barriers.
  static constexpr int kBytes = 2 * kStages * 8;

  explicit Ring(uint32 barriers) : barriers_(barriers) {}

  // Once, by one thread, before any role starts.
  void Init(uint32 consumers) const {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::InitBarrier(full(stage), 1);
      ptx::InitBarrier(empty(stage), consumers);
    }
  }

  // Producer: waits until the stage is free, then announces its bytes.
  void Acquire(uint32 bytes) const {
    ptx::Wait(empty(stage_), phase_ ^ 1);
    ptx::ArriveExpecting(full(stage_), bytes);
  }

  // Consumer: waits until the stage is full.
  void WaitFull() const { ptx::Wait(full(stage_), phase_); }

  // Consumer, one thread: gives a stage back to the producer.
  void Release(uint32 stage) const { ptx::Arrive(empty(stage)); }

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
  const uint32 barriers_;
  uint32 stage_ = 0;
  uint32 phase_ = 0;
};

}  // namespace gemmd
