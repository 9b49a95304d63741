// How kernels are described to clients.
#ifndef GEMMD_SERVICE_RPC_KERNEL_SUMMARY_H_
#define GEMMD_SERVICE_RPC_KERNEL_SUMMARY_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "gemmd/v1/kernels.pb.h"
#include "jit/cache/kernel_cache.h"
#include "service/engine/engine.h"

namespace gemmd::rpc {

// Which kernels are loaded where, as of its construction. Immutable.
class LoadedKernels {
 public:
  explicit LoadedKernels(const engine::Engine& engine);

  // Names of the devices on which the kernel of `key` is loaded.
  const std::vector<std::string>& On(const std::string& key) const;

 private:
  absl::flat_hash_map<std::string, std::vector<std::string>> devices_;
};

v1::KernelSummary ToWire(const jit::EntrySummary& kernel,
                         const LoadedKernels& loaded);

// INVALID_ARGUMENT unless `key` is 64 hexadecimal digits.
absl::Status CheckKey(const std::string& key);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_KERNEL_SUMMARY_H_
