// Whose turn it is: two ping-pong consumers walk the same ring, so each must
// stay out until the other has seen all its stages fill. Without this a
// consumer could take a barrier's phase for one that is two rounds later.
#pragma once

#include "common/types.h"
#include "ptx/barrier.h"

namespace gemmd {

class Turn {
 public:
  static constexpr int kBytes = 2 * 8;

  Turn(uint32 barriers, int consumer)
      : own_(barriers + 8 * consumer),
        other_(barriers + 8 * (consumer ^ 1)),
        // Consumer 0 finds its barrier already passed the first time.
        phase_(consumer ^ 1) {}

  // Once, by one thread, before any role starts. So many threads of a consumer
  // pass the turn on: as many as warps, where some may not have begun it.
  static void Init(uint32 barriers, int passing) {
    ptx::InitBarrier(barriers, passing);
    ptx::InitBarrier(barriers + 8, passing);
  }

  void Wait() {
    ptx::Wait(own_, phase_);
    phase_ ^= 1;
  }

  // Lets the other consumer start.
  void Pass() const { ptx::Arrive(other_); }

 private:
  const uint32 own_;
  const uint32 other_;
  uint32 phase_;
};

}  // namespace gemmd
