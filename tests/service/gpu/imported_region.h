// Memory of a client's GPU, imported by a device, as a region.
#ifndef GEMMD_TESTS_SERVICE_GPU_IMPORTED_REGION_H_
#define GEMMD_TESTS_SERVICE_GPU_IMPORTED_REGION_H_

#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "service/device/device.h"
#include "service/device/region.h"

namespace gemmd::gpu {

class ImportedRegion final : public device::Region {
 public:
  explicit ImportedRegion(std::unique_ptr<device::Imported> memory)
      : memory_(std::move(memory)) {}
  absl::Span<char> bytes() const override { return memory_->bytes(); }
  bool pinned() const override { return false; }
  int device() const override { return 0; }

 private:
  const std::unique_ptr<device::Imported> memory_;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_TESTS_SERVICE_GPU_IMPORTED_REGION_H_
