#include "service/engine/bell.h"

#include <chrono>
#include <thread>

namespace gemmd::engine {

void Bell::Ring() {
  ++rings_;
  if (one_spins_) {
    one_spins_ = false;
  } else {
    rung_.notify_one();
  }
}

void Bell::RingForAll() {
  ++rings_;
  one_spins_ = false;
  rung_.notify_all();
}

void Bell::Wait(std::unique_lock<std::mutex>& lock) {
  if (spin_ > absl::ZeroDuration() && !one_spins_) {
    one_spins_ = true;
    const uint32_t rings = rings_;
    lock.unlock();
    Spin(rings);
    lock.lock();
    // Whoever rang has taken note of it.
    if (rings_ != rings) return;
    one_spins_ = false;
  }
  rung_.wait(lock);
}

void Bell::Spin(uint32_t rings) const {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + absl::ToChronoNanoseconds(spin_);
  while (rings_ == rings && Clock::now() < end) std::this_thread::yield();
}

}  // namespace gemmd::engine
