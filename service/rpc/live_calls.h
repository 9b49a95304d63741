// Calls that are asked for, and those that have come and are not over.
// Completion queues may be shut down once there are none and there can be no
// more. Thread-safe.
#ifndef GEMMD_SERVICE_RPC_LIVE_CALLS_H_
#define GEMMD_SERVICE_RPC_LIVE_CALLS_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace gemmd::rpc {

class LiveCalls {
 public:
  // False when there can be no more.
  bool Ask() {
    std::lock_guard lock(mutex_);
    if (!closed_) ++asked_;
    return !closed_;
  }
  // One that was asked for has come, or will not.
  void Begin() {
    std::lock_guard lock(mutex_);
    --asked_;
    ++running_;
  }
  void Withdraw() {
    std::lock_guard lock(mutex_);
    --asked_;
    fewer_.notify_all();
  }
  void End() {
    std::lock_guard lock(mutex_);
    --running_;
    fewer_.notify_all();
  }
  // Whether all that have come are over, at the latest after `timeout`.
  bool WaitUntilOver(absl::Duration timeout) {
    std::unique_lock lock(mutex_);
    return fewer_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                           [this] { return running_ == 0; });
  }
  // After the server has been shut down, which ends the waiting.
  void CloseAndWait() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    fewer_.wait(lock, [this] { return asked_ + running_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable fewer_;
  int64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_LIVE_CALLS_H_
