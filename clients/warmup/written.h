// What a command wrote to a cache directory, which evicts what is above its
// limit at once. Thread-safe.
#ifndef GEMMD_CLIENTS_WARMUP_WRITTEN_H_
#define GEMMD_CLIENTS_WARMUP_WRITTEN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "jit/compile/compiled_kernel.h"
#include "jit/plan/tuning_record.h"

namespace gemmd::warmup {

class Written {
 public:
  explicit Written(std::string directory);

  // Of what is to be there in the end, written or found there.
  void Add(const jit::CompiledKernel& kernel);
  void Add(const jit::TuningRecord& record);

  // RESOURCE_EXHAUSTED when not all of it is there any more: how much is not,
  // and the limit that would hold it.
  absl::Status CheckKept() const;

 private:
  void Add(const std::string& name, size_t bytes);

  const std::string directory_;
  mutable std::mutex mutex_;
  // Bytes on disk of each file, by its name in the directory.
  std::map<std::string, int64_t> files_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_WRITTEN_H_
