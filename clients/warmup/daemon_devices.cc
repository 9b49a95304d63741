#include "clients/warmup/daemon_devices.h"

#include <set>

#include "jit/base/status.h"

namespace gemmd::warmup {

absl::StatusOr<std::vector<jit::DeviceProperties>> DevicesOf(
    client::Client& client) {
  ASSIGN_OR_RETURN(const v1::ServerInfo info, client.GetServerInfo());
  std::set<int> multiprocessors;
  for (const v1::DeviceInfo& device : info.devices()) {
    multiprocessors.insert(device.multiprocessors() > 1
                               ? device.multiprocessors()
                               : jit::DeviceProperties().multiprocessors);
  }
  std::vector<jit::DeviceProperties> devices;
  for (const int count : multiprocessors) {
    devices.push_back({.multiprocessors = count});
  }
  return devices;
}

}  // namespace gemmd::warmup
