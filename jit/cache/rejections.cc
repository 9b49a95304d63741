#include "jit/cache/rejections.h"

#include <algorithm>

#include "jit/base/steady_time.h"

namespace gemmd::jit {

void Rejections::Add(const std::string& key, const absl::Status& status) {
  std::lock_guard lock(mutex_);
  absl::Duration pause =
      absl::IsInternal(status) ? lifetime_ : std::min(first_pause_, lifetime_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    pause = std::max(pause, std::min(2 * found->second->pause, lifetime_));
    order_.erase(found->second);
  }
  order_.push_back({key, status, SteadyNow() + pause, pause});
  by_key_[key] = std::prev(order_.end());
  if (order_.size() > limit_) {
    by_key_.erase(order_.front().key);
    order_.pop_front();
  }
}

absl::Status Rejections::Find(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return absl::OkStatus();
  // What has ended stays known: the next pause is twice as long.
  return SteadyNow() < found->second->until ? found->second->status
                                            : absl::OkStatus();
}

void Rejections::Remove(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  order_.erase(found->second);
  by_key_.erase(found);
}

}  // namespace gemmd::jit
