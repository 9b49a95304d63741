#include "jit/source_index.h"

#include <algorithm>
#include <utility>

#include "jit/sha256.h"

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
}

std::string SourceIndex::Find(const Instance& instance) {
  std::lock_guard lock(mutex_);
  Refresh();
  std::string key, compiler;
  for (const auto& [candidate, known] : known_) {
    if (known.source_digest == instance.source.digest() &&
        StartsWith(known.options, instance.options) &&
        known.compiler > compiler) {
      key = candidate;
      compiler = known.compiler;
    }
  }
  return key;
}

}  // namespace gemmd::jit
