#include "service/rpc/health_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd::rpc {

absl::Status HealthWatch::Open() {
  {
    std::lock_guard lock(health_.mutex_);
    int& count = health_.counts_[call_.connection().identity()];
    if (count >= kMaxPerConnection) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the connection has ", count,
                       " watches of the health; allowed: ", kMaxPerConnection));
    }
    ++count;
    connection_ = call_.connection().identity();
    health_.watches_.insert(this);
  }
  call_.WhenGivenUp([this] { Wake(); });
  return absl::OkStatus();
}

HealthWatch::~HealthWatch() {
  if (!connection_.has_value()) return;
  call_.WhenGivenUp(nullptr);
  // Waits also for a Wake that has resumed the call and not yet returned.
  std::lock_guard lock(health_.mutex_);
  health_.watches_.erase(this);
  const auto count = health_.counts_.find(*connection_);
  if (--count->second == 0) health_.counts_.erase(count);
}

bool HealthWatch::Wait(std::coroutine_handle<> handle) {
  std::lock_guard lock(mutex_);
  if (std::exchange(woken_, false)) return false;
  handle_ = handle;
  waiting_ = true;
  return true;
}

void HealthWatch::Wake() {
  std::lock_guard lock(mutex_);
  if (!std::exchange(waiting_, false)) {
    woken_ = true;
    return;
  }
  // The last one has fired, if there was one.
  alarm_.emplace().Set(call_.loop().queue(), gpr_inf_past(GPR_CLOCK_REALTIME),
                       static_cast<Event*>(this));
}

}  // namespace gemmd::rpc
