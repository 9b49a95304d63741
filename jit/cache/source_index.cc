#include "jit/cache/source_index.h"

#include <algorithm>
#include <utility>

#include "jit/base/sha256.h"

namespace gemmd::jit {
namespace {

// A compiler appends its own options to those of the instance.
bool StartsWith(const std::vector<std::string>& options,
                const std::vector<std::string>& start) {
  return options.size() >= start.size() &&
         std::equal(start.begin(), start.end(), options.begin());
}

}  // namespace

void SourceIndex::Refresh() {
  std::map<std::string, Known> known;
  for (const std::shared_ptr<DiskStore>& store : stores_) {
    for (const std::string& key : store->Keys()) {
      if (const auto found = known_.find(key); found != known_.end()) {
        known.insert(*found);
        continue;
      }
      absl::StatusOr<CompiledKernel> kernel = store->Load(key);
      if (!kernel.ok()) continue;
      known[key] = {Sha256Of(kernel->source), std::move(kernel->options),
                    std::move(kernel->compiler)};
    }
  }
  known_ = std::move(known);
  by_source_.clear();
  for (const auto& [key, entry] : known_) {
    by_source_[entry.source_digest].push_back(key);
  }
}

std::string SourceIndex::Newest(const Instance& instance) const {
  std::string newest, compiler;
  const auto keys = by_source_.find(instance.source.digest());
  if (keys == by_source_.end()) return newest;
  for (const std::string& key : keys->second) {
    const Known& known = known_.at(key);
    if (StartsWith(known.options, instance.options) &&
        known.compiler > compiler) {
      newest = key;
      compiler = known.compiler;
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
