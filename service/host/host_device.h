// The host device: the same service without a GPU. Products run on the CPU,
// at once, on the thread that asks; see service/host/gemm.h for the numerics.
//
// Thread-safe as device.h asks.
#ifndef GEMMD_SERVICE_HOST_HOST_DEVICE_H_
#define GEMMD_SERVICE_HOST_HOST_DEVICE_H_

#include <cstdint>
#include <memory>

#include "service/device/device.h"

namespace gemmd::host {

struct HostDeviceOptions {
  // Most bytes of all its matrices together; 0 means half of the machine's
  // memory.
  int64_t memory_bytes = 0;
};

std::unique_ptr<device::Device> CreateHostDevice(HostDeviceOptions options);

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_HOST_DEVICE_H_
