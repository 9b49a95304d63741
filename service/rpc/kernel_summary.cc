#include "service/rpc/kernel_summary.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"

namespace gemmd::rpc {

LoadedKernels::LoadedKernels(const engine::Engine& engine) {
  for (int i = 0; i < engine.device_count(); ++i) {
    for (const std::string& key : engine.kernels(i).LoadedKeys()) {
      devices_[key].push_back(engine.device(i).description().name);
    }
  }
}

const std::vector<std::string>& LoadedKernels::On(
    const std::string& key) const {
  static const std::vector<std::string> kNowhere;
  const auto found = devices_.find(key);
  return found == devices_.end() ? kNowhere : found->second;
}

v1::KernelSummary ToWire(const jit::EntrySummary& kernel,
                         const LoadedKernels& loaded) {
  v1::KernelSummary summary;
  summary.set_key(kernel.key);
  summary.set_kernel(kernel.name);
  summary.set_cubin_bytes(kernel.cubin_bytes);
  for (const std::string& device : loaded.On(kernel.key)) {
    summary.add_loaded_on(device);
  }
  return summary;
}

absl::Status CheckKey(const std::string& key) {
  if (key.size() == 64 && std::ranges::all_of(key, [](unsigned char c) {
        return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
      })) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "key is malformed; allowed: 64 lower-case hexadecimal digits");
}

}  // namespace gemmd::rpc
