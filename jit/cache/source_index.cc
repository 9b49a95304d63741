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

SourceIndex::SourceIndex(
    const std::vector<std::shared_ptr<DiskStore>>& stores) {
  for (const auto& store : stores) directories_.emplace_back(store);
}

void SourceIndex::Refresh() {
  bool changed = false;
  for (KnownEntries& directory : directories_) changed |= directory.Refresh();
  if (!changed) return;
  BySource listed;
  for (const KnownEntries& directory : directories_) {
    for (const auto& [key, entry] : directory.entries()) {
      listed[entry.source_digest].push_back(
          {key, entry.options, entry.compiler});
    }
  }
  std::lock_guard lock(mutex_);
  listed_.swap(listed);
}

void SourceIndex::Add(const EntrySummary& summary) {
  const auto is_it = [&summary](const Candidate& candidate) {
    return candidate.key == summary.key;
  };
  std::lock_guard lock(mutex_);
  if (added_count_ >= kMaxAdded) return;
  for (const BySource* map : {&listed_, &added_}) {
    const auto found = map->find(summary.source_digest);
    if (found != map->end() && std::ranges::any_of(found->second, is_it)) {
      return;
    }
  }
  const EntryTexts::Entry entry = added_texts_.Intern(summary);
  added_[entry.source_digest].push_back(
      {summary.key, entry.options, entry.compiler});
  ++added_count_;
}

std::string SourceIndex::FindKnown(const Instance& instance) const {
  const std::string digest = instance.source.digest();
  std::string newest, compiler;
  std::lock_guard lock(mutex_);
  for (const BySource* map : {&listed_, &added_}) {
    const auto found = map->find(digest);
    if (found == map->end()) continue;
    for (const Candidate& candidate : found->second) {
      if (StartsWith(*candidate.options, instance.options) &&
          *candidate.compiler > compiler) {
        newest = candidate.key;
        compiler = *candidate.compiler;
      }
    }
  }
  return newest;
}

std::string SourceIndex::Find(const Instance& instance) {
  {
    std::lock_guard lock(listing_);
    Refresh();
  }
  return FindKnown(instance);
}

KnownEntries::Work SourceIndex::work() const {
  KnownEntries::Work work;
  std::lock_guard lock(listing_);
  for (const KnownEntries& directory : directories_) {
    work.listings += directory.work().listings;
    work.reads += directory.work().reads;
  }
  return work;
}

}  // namespace gemmd::jit
