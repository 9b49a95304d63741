// Finds kernels by source, whichever compiler made them: how a machine without
// NVRTC, which cannot know the key, still runs cached kernels. Thread-safe.
#ifndef GEMMD_JIT_CACHE_SOURCE_INDEX_H_
#define GEMMD_JIT_CACHE_SOURCE_INDEX_H_

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "jit/cache/disk_store.h"
#include "jit/source/instance.h"

namespace gemmd::jit {

class SourceIndex {
 public:
  explicit SourceIndex(std::vector<std::shared_ptr<DiskStore>> stores)
      : stores_(std::move(stores)), listed_at_(stores_.size()) {}

  // Key of the entry of `instance` made by the newest compiler; empty when
  // there is none. Lists the directories that changed; reads the summary of
  // each entry once, which is no use of it.
  std::string Find(const Instance& instance);
  // The same as of the last Find, whatever happened to the directories since:
  // touches no disk.
  std::string FindKnown(const Instance& instance) const;
  // Notes a kernel that came from elsewhere.
  void Add(const EntrySummary& summary);

 private:
  // Entries are many, their options and compilers few: each is held once.
  struct Known {
    std::string source_digest;
    const std::vector<std::string>* options;
    const std::string* compiler;
  };

  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Known Intern(const EntrySummary& summary)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Newest(const Instance& instance) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<std::shared_ptr<DiskStore>> stores_;
  mutable std::mutex mutex_;
  // ChangedAt() of each store when it was last listed.
  std::vector<absl::Time> listed_at_ ABSL_GUARDED_BY(mutex_);
  std::set<std::vector<std::string>> options_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> compilers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);  // By key.
  // Of kernels that came from elsewhere, by key.
  std::map<std::string, Known> added_ ABSL_GUARDED_BY(mutex_);
  // Keys of both by source digest.
  absl::flat_hash_map<std::string, std::vector<std::string>> by_source_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_SOURCE_INDEX_H_
