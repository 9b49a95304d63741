// What is known of the entries of one directory, which others may write to.
// The summary of each is read once, which is no use of it.
#ifndef GEMMD_JIT_CACHE_KNOWN_ENTRIES_H_
#define GEMMD_JIT_CACHE_KNOWN_ENTRIES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/entry.h"
#include "jit/compile/file_notes.h"

namespace gemmd::jit {

// Entries are many, their options and compilers few: each is held once, and
// stays.
class EntryTexts {
 public:
  struct Entry {
    std::string source_digest;
    const std::vector<std::string>* options;
    const std::string* compiler;
  };

  Entry Intern(const EntrySummary& summary);

 private:
  std::set<std::vector<std::string>> options_;
  std::set<std::string> compilers_;
};

// Thread-compatible.
class KnownEntries {
 public:
  // What was done so far; for tests.
  struct Work {
    int64_t listings = 0;
    int64_t reads = 0;  // Of summaries.
  };

  explicit KnownEntries(std::shared_ptr<DiskStore> store)
      : store_(std::move(store)) {}

  // Lists the directory when it may have changed, unless it was listed just
  // now. Whether entries came or went.
  bool Refresh();
  // For how long it is not listed again after it took `took`: a directory that
  // is written to all the time does not hold up who looks into it, and what
  // another process writes is found within seconds.
  static absl::Duration PauseAfter(absl::Duration took);

  // By key.
  const std::map<std::string, EntryTexts::Entry>& entries() const {
    return entries_;
  }
  const Work& work() const { return work_; }

 private:
  bool List();

  const std::shared_ptr<DiskStore> store_;
  // ChangedAt() when it was last listed; InfiniteFuture, which that never is,
  // when not all of it could be read.
  absl::Time changed_at_;
  absl::Time list_again_ = absl::InfinitePast();  // No sooner.
  std::map<std::string, EntryTexts::Entry> entries_;
  // Files that are damaged or of another format, by key: not read again until
  // they change.
  std::map<std::string, FileStamp> unusable_;
  EntryTexts texts_;
  Work work_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_KNOWN_ENTRIES_H_
