#include "service/rpc/kernel_summary.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"

namespace gemmd::rpc {

v1::KernelSummary ToWire(const jit::CompiledKernel& kernel,
                         const engine::Engine& engine) {
  v1::KernelSummary summary;
  summary.set_key(kernel.key);
  summary.set_kernel(kernel.name);
  summary.set_cubin_bytes(kernel.cubin.size());
  for (int i = 0; i < engine.device_count(); ++i) {
    const std::vector<std::string> keys = engine.kernels(i).LoadedKeys();
    if (std::ranges::find(keys, kernel.key) != keys.end()) {
      summary.add_loaded_on(engine.device(i).description().name);
    }
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
