// The host device: the same service without a GPU. Products run on the CPU,
// at once, on the thread that asks and on helpers of the arithmetic's own; see
// service/host/gemm.h for the numerics.
//
// Thread-safe as device.h asks.
#ifndef GEMMD_SERVICE_HOST_HOST_DEVICE_H_
#define GEMMD_SERVICE_HOST_HOST_DEVICE_H_

#include <cstdint>
#include <memory>

#include "service/device/device.h"

namespace gemmd::host {

struct HostDeviceOptions {
  // The tensor core's where it is known (HopperSums::Knows), or f64 for all
  // floating types. Integers are exact in both.
  device::SumArithmetic arithmetic = device::SumArithmetic::kHopper;
  // Of the GPU whose plans, and with them parts of k, products have.
  jit::DeviceProperties model;
  // Most bytes of all its matrices together; 0 means half of MachineBytes().
  int64_t memory_bytes = 0;
};

std::unique_ptr<device::Device> CreateHostDevice(HostDeviceOptions options);

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_HOST_DEVICE_H_
