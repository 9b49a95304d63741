// The kernels of a cache directory, read without changing it.
#ifndef GEMMD_CLIENTS_WARMUP_KERNELS_H_
#define GEMMD_CLIENTS_WARMUP_KERNELS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/cache/kernel_cache.h"

namespace gemmd::warmup {

struct KernelSet {
  std::vector<jit::CompiledKernel> kernels;  // By name, then key.
  int damaged = 0;  // Entries that cannot be read, named on stderr.
};

// NOT_FOUND when `directory` is no cache.
absl::StatusOr<KernelSet> LoadKernels(const std::string& directory);

// Bytes of `file`, "-" being standard input. The error names the file.
absl::StatusOr<std::string> ReadFile(const std::string& file);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_KERNELS_H_
