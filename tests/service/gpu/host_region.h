// Memory of the host that a client shares, for tests.
#ifndef GEMMD_TESTS_SERVICE_GPU_HOST_REGION_H_
#define GEMMD_TESTS_SERVICE_GPU_HOST_REGION_H_

#include <memory>
#include <string>
#include <utility>

#include "service/device/device.h"

namespace gemmd::gpu {

class HostRegion final : public device::Region {
 public:
  // Pinned by `device` unless that is null.
  HostRegion(std::string bytes, device::Device* device)
      : bytes_(std::move(bytes)) {
    if (device != nullptr) pin_ = *device->PinMemory(this->bytes());
  }

  absl::Span<char> bytes() const override {
    return {const_cast<char*>(bytes_.data()), bytes_.size()};
  }
  bool pinned() const override { return pin_ != nullptr; }

 private:
  std::string bytes_;
  std::unique_ptr<device::Pin> pin_;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_TESTS_SERVICE_GPU_HOST_REGION_H_
