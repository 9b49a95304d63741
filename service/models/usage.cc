#include "service/models/usage.h"

#include <algorithm>

namespace gemmd::models {

void Counts::Add(const Counts& other) {
  last = std::max(last, other.last);
  succeeded.Add(other.succeeded);
  failed.Add(other.failed);
  queue.Add(other.queue);
  input.Add(other.input);
  compute.Add(other.compute);
  output.Add(other.output);
}

void Usage::Add(const std::string& who, const Counts& counts) {
  std::lock_guard lock(mutex_);
  counts_[who].Add(counts);
}

Counts Usage::Of(const std::string& who) const {
  std::lock_guard lock(mutex_);
  const auto found = counts_.find(who);
  return found == counts_.end() ? Counts() : found->second;
}

Counts Usage::All() const {
  Counts all;
  std::lock_guard lock(mutex_);
  for (const auto& [who, counts] : counts_) all.Add(counts);
  return all;
}

}  // namespace gemmd::models
