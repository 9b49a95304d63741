// Tuning records in memory, where looking one up costs a hash: all that the
// store of a cache directory and its read-only layers held for these templates
// at the start, and what was put since. Thread-safe.
//
// Put writes to the directory before anybody sees the record: what requests
// were served with, another start of the daemon finds again. Of two records of
// one problem the one of the higher generation counts, wherever it lies.
#ifndef GEMMD_JIT_CACHE_TUNING_TABLE_H_
#define GEMMD_JIT_CACHE_TUNING_TABLE_H_

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "jit/plan/tuning_record.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

class TuningTable {
 public:
  struct Options {
    std::string directory;  // Empty: records are kept in memory alone.
    // Read; of one generation, what `directory` has counts more.
    std::vector<std::string> layers;
    size_t max_records = 65536;
    // Told of records that cannot be read; names host paths. May be null.
    std::function<void(const std::string&)> warn;
  };

  TuningTable(Options options, std::string template_digest);

  std::optional<TuningRecord> Find(const Problem& problem,
                                   const std::string& device) const;

  // Takes over what another process has put into the directory since; false
  // when that is nothing new.
  bool Refresh(const Problem& problem, const std::string& device);

  // Replaces what was measured before, if it may (MayReplace) here and in the
  // directory; its template digest is set. Returns what counts from now on. An
  // error when it cannot be written, RESOURCE_EXHAUSTED when there are too
  // many: then nothing has changed.
  absl::StatusOr<TuningRecord> Put(TuningRecord record);

  const std::string& template_digest() const { return template_digest_; }
  size_t size() const;

 private:
  using Key = std::pair<std::string, std::string>;  // Device, problem class.

  void Read(const std::string& directory, bool read_only);
  // The record that counts from now on; null when there is no room for one.
  const TuningRecord* Keep(TuningRecord record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::string template_digest_;

  // Held while a record is written: of two, the later one stays in both.
  std::mutex write_mutex_;
  mutable std::mutex mutex_;  // Taken after write_mutex_.
  absl::flat_hash_map<Key, TuningRecord> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_TUNING_TABLE_H_
