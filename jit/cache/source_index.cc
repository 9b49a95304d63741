#include "jit/cache/source_index.h"

#include <algorithm>
#include <utility>

namespace gemmd::jit {
namespace {

// What came from elsewhere lies in memory, which is bounded, or in no tier.
constexpr size_t kMaxAdded = 4096;

// A compiler appends its own options to those of the instance.
bool StartsWith(const std::vector<std::string>& options,
                const std::vector<std::string>& start) {
  return options.size() >= start.size() &&
         std::equal(start.begin(), start.end(), options.begin());
}

}  // namespace

SourceIndex::Known SourceIndex::Intern(const EntrySummary& summary) {
  return {summary.source_digest, &*options_.insert(summary.options).first,
          &*compilers_.insert(summary.compiler).first};
}

void SourceIndex::Refresh() {
  bool changed = false;
  for (size_t i = 0; i < stores_.size(); ++i) {
    const absl::Time at = stores_[i]->ChangedAt();
    changed |= at != listed_at_[i] || at == absl::InfiniteFuture();
    listed_at_[i] = at;
  }
  if (!changed) return;
  std::map<std::string, Known> known;
  for (const std::shared_ptr<DiskStore>& store : stores_) {
    std::vector<std::string> unknown;
    for (std::string& key : store->Keys()) {
      if (const auto found = known_.find(key); found != known_.end()) {
        known.insert(*found);
      } else {
        unknown.push_back(std::move(key));
      }
    }
    store->Summaries(unknown, [&](const EntrySummary& summary) {
      known[summary.key] = Intern(summary);
    });
  }
  known_ = std::move(known);
  by_source_.clear();
  for (const auto* map : {&known_, &added_}) {
    for (const auto& [key, entry] : *map) {
      by_source_[entry.source_digest].push_back(key);
    }
  }
}

void SourceIndex::Add(const EntrySummary& summary) {
  std::lock_guard lock(mutex_);
  if (added_.size() >= kMaxAdded || known_.contains(summary.key)) return;
  if (!added_.emplace(summary.key, Intern(summary)).second) return;
  by_source_[summary.source_digest].push_back(summary.key);
}

std::string SourceIndex::Newest(const Instance& instance) const {
  std::string newest, compiler;
  const auto keys = by_source_.find(instance.source.digest());
  if (keys == by_source_.end()) return newest;
  for (const std::string& key : keys->second) {
    auto found = known_.find(key);
    if (found == known_.end()) found = added_.find(key);
    const Known& known = found->second;
    if (StartsWith(*known.options, instance.options) &&
        *known.compiler > compiler) {
      newest = key;
      compiler = *known.compiler;
    }
  }
  return newest;
}

std::string SourceIndex::Find(const Instance& instance) {
  std::lock_guard lock(mutex_);
  Refresh();
  return Newest(instance);
}

std::string SourceIndex::FindKnown(const Instance& instance) const {
  std::lock_guard lock(mutex_);
  return Newest(instance);
}

}  // namespace gemmd::jit
