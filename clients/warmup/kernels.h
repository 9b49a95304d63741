// The kernels and tuning records of a cache directory, read without changing
// it.
#ifndef GEMMD_CLIENTS_WARMUP_KERNELS_H_
#define GEMMD_CLIENTS_WARMUP_KERNELS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/entry.h"
#include "jit/plan/tuning_record.h"

namespace gemmd::warmup {

// What is known of the kernels of a cache without reading them whole.
struct KernelList {
  std::vector<jit::EntrySummary> kernels;  // By name, then key.
  int damaged = 0;  // Entries that cannot be read, named on stderr.
};

// Keys of the kernels of `directory`. NOT_FOUND when it is no cache; an error
// when it cannot be read or trusted.
absl::StatusOr<std::vector<std::string>> ReadKeys(const std::string& directory);

// Errors as those of ReadKeys.
absl::StatusOr<KernelList> ListKernels(const std::string& directory);

// `directory`, to be read only.
jit::DiskStore OpenToRead(const std::string& directory);

// The kernel of `key`, which was listed; nothing when it was evicted since, or
// is damaged: then it is named on stderr and counted.
std::optional<jit::CompiledKernel> ReadKernel(const jit::DiskStore& store,
                                              const std::string& key,
                                              int& damaged);

// The tuning records of a cache, by key. Those that cannot be read are named on
// stderr and counted.
std::vector<jit::TuningRecord> ReadRecords(const std::string& directory,
                                           int& damaged);

// Bytes of `file`, "-" being standard input. The error names the file.
absl::StatusOr<std::string> ReadFile(const std::string& file);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_KERNELS_H_
