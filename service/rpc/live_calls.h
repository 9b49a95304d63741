// Calls that are waited for or not over. Completion queues may be shut down
// once there are none and there can be no more. Thread-safe.
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
  bool Add() {
    std::lock_guard lock(mutex_);
    if (!closed_) ++count_;
    return !closed_;
  }
  void Remove() {
    std::lock_guard lock(mutex_);
    --count_;
    fewer_.notify_all();
  }
  int64_t count() {
    std::lock_guard lock(mutex_);
    return count_;
  }
  // Whether no more than `count` are left, at the latest after `timeout`.
  bool WaitForAtMost(int64_t count, absl::Duration timeout) {
    std::unique_lock lock(mutex_);
    return fewer_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                           [&] { return count_ <= count; });
  }
  // After the server has been shut down, which ends the waiting.
  void CloseAndWait() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    fewer_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable fewer_;
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_LIVE_CALLS_H_
