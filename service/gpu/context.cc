#include "service/gpu/context.h"

#include <utility>

#include "service/gpu/status.h"

namespace gemmd::gpu {

absl::StatusOr<std::unique_ptr<Context>> Context::Create(
    std::shared_ptr<const DriverTable> driver, int ordinal) {
  CUdevice device;
  RETURN_IF_CUDA_ERROR(*driver, cuDeviceGet(&device, ordinal));
  CUcontext context;
  RETURN_IF_CUDA_ERROR(*driver, cuDevicePrimaryCtxRetain(&context, device));
  // Owned from here on: an error below releases it.
  auto owner =
      std::unique_ptr<Context>(new Context(std::move(driver), device, context));
  RETURN_IF_ERROR(owner->MakeCurrent());
  return owner;
}

Context::Context(std::shared_ptr<const DriverTable> driver, CUdevice device,
                 CUcontext context)
    : driver_(std::move(driver)), device_(device), context_(context) {}

Context::~Context() { driver_->cuDevicePrimaryCtxRelease(device_); }

absl::Status Context::MakeCurrent() const {
  RETURN_IF_CUDA_ERROR(*driver_, cuCtxSetCurrent(context_));
  return absl::OkStatus();
}

absl::StatusOr<int> Context::Attribute(CUdevice_attribute attribute) const {
  int value = 0;
  RETURN_IF_CUDA_ERROR(*driver_,
                       cuDeviceGetAttribute(&value, attribute, device_));
  return value;
}

}  // namespace gemmd::gpu
