// Tuning records beside the kernels of a cache directory, in the folder
// "tuning": one file per record, named by its key. Records are small and few,
// and are read as they are needed. Thread-safe, and safe between processes.
#ifndef GEMMD_JIT_CACHE_TUNING_STORE_H_
#define GEMMD_JIT_CACHE_TUNING_STORE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "jit/base/folder.h"
#include "jit/plan/tuning_record.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

// What a directory holds of them.
struct TuningRecords {
  std::vector<TuningRecord> readable;  // In order of their keys.
  std::vector<std::string> faults;     // Why others are not: "KEY: reason".
};

class TuningStore {
 public:
  explicit TuningStore(std::string directory, bool read_only = false)
      : directory_(std::move(directory)), read_only_(read_only) {}

  // NOT_FOUND when the class of `problem` was not measured on `device` with
  // these templates. DATA_LOSS for a damaged record, which is removed.
  absl::StatusOr<TuningRecord> Find(const Problem& problem,
                                    absl::string_view device,
                                    absl::string_view template_digest) const;

  // Replaces what was measured before, if it may (MayReplace) or cannot be
  // decoded. Returns what is there now. An error where that cannot be told.
  absl::StatusOr<TuningRecord> Put(TuningRecord record) const;

  // Damaged ones are removed.
  TuningRecords All() const;

  // Removes records of other templates; how many.
  int RemoveOthers(absl::string_view template_digest) const;

 private:
  FolderAccess access() const {
    return read_only_ ? FolderAccess::kRead : FolderAccess::kOwn;
  }
  absl::StatusOr<TuningRecord> Load(const std::string& key) const;

  const std::string directory_;
  const bool read_only_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_TUNING_STORE_H_
