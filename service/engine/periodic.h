// A thread that does the same thing again and again until it is destroyed.
#ifndef GEMMD_SERVICE_ENGINE_PERIODIC_H_
#define GEMMD_SERVICE_ENGINE_PERIODIC_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/time/time.h"

namespace gemmd::engine {

class Periodic {
 public:
  // First after `interval`. Rounds never overlap.
  Periodic(absl::Duration interval, std::function<void()> work)
      : thread_([this, interval, work = std::move(work)] {
          std::unique_lock lock(mutex_);
          const auto pause = absl::ToChronoNanoseconds(interval);
          while (
              !stopped_.wait_for(lock, pause, [this] { return stopping_; })) {
            lock.unlock();
            work();
            lock.lock();
          }
        }) {}
  ~Periodic() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stopped_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;  // Last: it uses the members above.
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_PERIODIC_H_
