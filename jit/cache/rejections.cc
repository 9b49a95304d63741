#include "jit/cache/rejections.h"

namespace gemmd::jit {

void Rejections::Add(const std::string& key, const absl::Status& status) {
  if (!absl::IsInternal(status)) return;
  Remove(key);
  std::lock_guard lock(mutex_);
  order_.push_back({key, status, absl::Now() + lifetime_});
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
  // A clock that was set back must not make a rejection last longer.
  const absl::Duration left = found->second->until - absl::Now();
  if (left > absl::ZeroDuration() && left <= lifetime_) {
    return found->second->status;
  }
  order_.erase(found->second);
  by_key_.erase(found);
  return absl::OkStatus();
}

void Rejections::Remove(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  order_.erase(found->second);
  by_key_.erase(found);
}

}  // namespace gemmd::jit
