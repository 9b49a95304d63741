// The calls that failed last, for people who look on. Thread-safe.
#ifndef GEMMD_SERVICE_RPC_RECENT_FAILURES_H_
#define GEMMD_SERVICE_RPC_RECENT_FAILURES_H_

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace gemmd::rpc {

class RecentFailures {
 public:
  static constexpr size_t kMost = 50;
  // Of a method and of a message; clients choose some of both.
  static constexpr size_t kMaxTextBytes = 500;

  struct Failure {
    absl::Time time;
    std::string id;
    std::string method;
    absl::StatusCode code = absl::StatusCode::kOk;
    std::string message;
  };

  void Note(Failure failure) {
    failure.method.resize(std::min(failure.method.size(), kMaxTextBytes));
    failure.message.resize(std::min(failure.message.size(), kMaxTextBytes));
    Failure oldest;  // Destroyed after the lock.
    std::lock_guard lock(mutex_);
    failures_.push_front(std::move(failure));
    if (failures_.size() <= kMost) return;
    oldest = std::move(failures_.back());
    failures_.pop_back();
  }

  // Newest first.
  std::vector<Failure> List() const {
    std::lock_guard lock(mutex_);
    return {failures_.begin(), failures_.end()};
  }

 private:
  mutable std::mutex mutex_;
  std::deque<Failure> failures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_RECENT_FAILURES_H_
