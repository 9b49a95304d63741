// Which devices this daemon owns.
#ifndef GEMMD_SERVICE_DAEMON_DEVICES_H_
#define GEMMD_SERVICE_DAEMON_DEVICES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/device/device.h"
#include "service/host/host_device.h"

namespace gemmd::daemon {

struct Devices {
  std::vector<std::unique_ptr<device::Device>> devices;
  // Why there is no GPU, when there is none and one would have been taken.
  std::string missing;
};

struct GpuOptions {
  bool imports_ipc = true;  // Memory of clients by legacy IPC.
};

// `kind` is "auto", "cuda" or "host". "auto" takes every GPU of compute
// capability 9.0, and the host only where there is none; "cuda" never takes
// the host. INVALID_ARGUMENT for another kind.
absl::StatusOr<Devices> OpenDevices(absl::string_view kind,
                                    const GpuOptions& gpu_options,
                                    const host::HostDeviceOptions& host);

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_DEVICES_H_
