// The kernels of a cache directory, read without changing it.
#ifndef GEMMD_CLIENTS_WARMUP_KERNELS_H_
#define GEMMD_CLIENTS_WARMUP_KERNELS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/entry.h"

namespace gemmd::warmup {

// What is known of the kernels of a cache without reading them whole.
struct KernelList {
  std::vector<jit::EntrySummary> kernels;  // By name, then key.
  int damaged = 0;  // Entries that cannot be read, named on stderr.
};

// NOT_FOUND when `directory` is no cache; an error when it cannot be read or
// trusted.
absl::StatusOr<KernelList> ListKernels(const std::string& directory);

// `directory`, to be read only.
jit::DiskStore OpenToRead(const std::string& directory);

// Bytes of `file`, "-" being standard input. The error names the file.
absl::StatusOr<std::string> ReadFile(const std::string& file);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_KERNELS_H_
