// Memory that a client shares, for tests without a client: a block of the
// test's own, of dots at first.
#ifndef GEMMD_TESTS_SERVICE_FAKE_REGION_H_
#define GEMMD_TESTS_SERVICE_FAKE_REGION_H_

#include <cstdint>
#include <string>

#include "service/device/device.h"

namespace gemmd::testing {

class FakeRegion final : public device::Region {
 public:
  // On the GPU of that number, if any; tests may touch it all the same.
  explicit FakeRegion(int64_t bytes, int device = kHost)
      : bytes_(static_cast<size_t>(bytes), '.'), device_(device) {}

  absl::Span<char> bytes() const override { return absl::MakeSpan(bytes_); }
  bool pinned() const override { return false; }
  int device() const override { return device_; }

 private:
  mutable std::string bytes_;
  const int device_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_FAKE_REGION_H_
