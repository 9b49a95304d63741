// Tuning records in memory, where looking one up costs a hash: all that the
// store of a cache directory and its read-only layers held for these templates
// at the start, and what was put since. Thread-safe.
//
// Put writes to the directory before anybody sees the record: what requests
// were served with, another start of the daemon finds again.
#ifndef GEMMD_JIT_CACHE_TUNING_TABLE_H_
#define GEMMD_JIT_CACHE_TUNING_TABLE_H_

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "jit/cache/tuning_store.h"
#include "jit/plan/tuning_record.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

class TuningTable {
 public:
  struct Options {
    std::string directory;  // Empty: records are kept in memory alone.
    std::vector<std::string> layers;  // Read; what `directory` has counts more.
    size_t max_records = 65536;
  };

  TuningTable(Options options, std::string template_digest);

  std::optional<TuningRecord> Find(const Problem& problem,
                                   const std::string& device) const;

  // Replaces what was measured before; its template digest is set. An error
  // when it cannot be written, RESOURCE_EXHAUSTED when there are too many:
  // then nothing has changed.
  absl::Status Put(TuningRecord record);

  const std::string& template_digest() const { return template_digest_; }
  size_t size() const;

 private:
  using Key = std::pair<std::string, std::string>;  // Device, problem class.

  void Read(const TuningStore& store);

  const Options options_;
  const std::string template_digest_;

  // Held while a record is written: of two, the later one stays in both.
  std::mutex write_mutex_;
  mutable std::mutex mutex_;  // Taken after write_mutex_.
  absl::flat_hash_map<Key, TuningRecord> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_TUNING_TABLE_H_
