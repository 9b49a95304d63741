// Wakes threads that wait for work. To wake a thread that sleeps takes 15 to 25
// us in a virtual machine, several times as long as a small product: so one of
// those that wait, the last that worked, spins for a while before it sleeps,
// and hears the bell at once. It yields to whoever else wants its core.
#ifndef GEMMD_SERVICE_ENGINE_BELL_H_
#define GEMMD_SERVICE_ENGINE_BELL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "absl/time/time.h"

namespace gemmd::engine {

class Bell {
 public:
  // Spins so long. A mutex that guards what is waited for is held in all calls
  // but this.
  explicit Bell(absl::Duration spin) : spin_(spin) {}

  // Wakes one that waits, if any does.
  void Ring();
  void RingForAll();
  // Lets go of `lock`, which is of that mutex, meanwhile. May return though
  // nobody rang.
  void Wait(std::unique_lock<std::mutex>& lock);

 private:
  // Until it has rung more often than `rings` times, or for long enough.
  void Spin(uint32_t rings) const;

  const absl::Duration spin_;
  std::condition_variable rung_;
  std::atomic<uint32_t> rings_ = 0;  // Written with the mutex.
  bool one_spins_ = false;           // And has not been rung for.
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_BELL_H_
