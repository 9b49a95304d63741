// Finds kernels by source, whichever compiler made them: how a machine without
// NVRTC, which cannot know the key, still runs cached kernels. Thread-safe.
#ifndef GEMMD_JIT_CACHE_SOURCE_INDEX_H_
#define GEMMD_JIT_CACHE_SOURCE_INDEX_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/known_entries.h"
#include "jit/source/instance.h"

namespace gemmd::jit {

class SourceIndex {
 public:
  explicit SourceIndex(const std::vector<std::shared_ptr<DiskStore>>& stores);

  // Key of the entry of `instance` made by the newest compiler; empty when
  // there is none. Lists the directories that changed, unless that was done
  // just now (KnownEntries::PauseAfter).
  std::string Find(const Instance& instance);
  // The same as of the last listing, whatever happened to the directories
  // since: touches no disk, and waits for nobody who does.
  std::string FindKnown(const Instance& instance) const;
  // Notes a kernel that came from elsewhere.
  void Add(const EntrySummary& summary);

  // In all directories; for tests.
  KnownEntries::Work work() const;

 private:
  struct Candidate {
    std::string key;
    const std::vector<std::string>* options;
    const std::string* compiler;
  };
  using BySource = absl::flat_hash_map<std::string, std::vector<Candidate>>;

  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(listing_);

  // Held by who lists, which may take long; taken before the other.
  mutable std::mutex listing_;
  std::vector<KnownEntries> directories_ ABSL_GUARDED_BY(listing_);

  mutable std::mutex mutex_;
  // By source digest. The texts are those of directories_ and added_texts_,
  // which keep them for ever.
  BySource listed_ ABSL_GUARDED_BY(mutex_);
  BySource added_ ABSL_GUARDED_BY(mutex_);  // Came from elsewhere.
  size_t added_count_ ABSL_GUARDED_BY(mutex_) = 0;
  EntryTexts added_texts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_SOURCE_INDEX_H_
