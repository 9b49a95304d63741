#include "service/daemon/devices.h"

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/gpu/cuda_device.h"
#include "service/host/host_device.h"
#include "service/log/log.h"

namespace gemmd::daemon {

absl::StatusOr<Devices> OpenDevices(absl::string_view kind,
                                    const GpuOptions& gpu_options,
                                    const host::HostDeviceOptions& host) {
  if (kind != "auto" && kind != "cuda" && kind != "host") {
    return absl::InvalidArgumentError(
        absl::StrCat("--device is \"", kind, "\"; allowed: auto, cuda, host"));
  }
  Devices result;
  if (kind != "host") {
    auto gpus = gpu::OpenCudaDevices(
        {.imports_ipc = gpu_options.imports_ipc,
         .unusable = [](int ordinal, const absl::Status& why) {
           log::Write(log::Level::kError, "device_unusable",
                      {{"ordinal", ordinal}, {"message", why.message()}});
         }});
    if (gpus.ok() && !gpus->empty()) {
      result.devices = *std::move(gpus);
      return result;
    }
    const std::string why(gpus.ok() ? "none found" : gpus.status().message());
    if (kind == "cuda") {
      return absl::FailedPreconditionError(
          absl::StrCat("--device=cuda, but there is no usable GPU: ", why));
    }
    result.missing = absl::StrCat(
        "Products run on the host, because there is no usable GPU: ", why);
  }
  result.devices.push_back(host::CreateHostDevice(host));
  return result;
}

}  // namespace gemmd::daemon
