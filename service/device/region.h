// Memory that a client and the daemon share. Whoever reads it has to expect
// that its bytes change meanwhile, and to look at each but once.
//
// Its bytes stay where they are for as long as somebody holds it. Thread-safe.
#ifndef GEMMD_SERVICE_DEVICE_REGION_H_
#define GEMMD_SERVICE_DEVICE_REGION_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"

namespace gemmd::device {

class Region {
 public:
  virtual ~Region() = default;

  virtual absl::Span<char> bytes() const = 0;
  // Devices copy from and to it by themselves.
  virtual bool pinned() const = 0;
};

// Where a matrix begins in one.
struct RegionPlace {
  std::shared_ptr<const Region> region;  // Null: in none.
  int64_t offset = 0;

  char* bytes() const { return region->bytes().data() + offset; }
};

// Host memory that devices copy from and to by themselves, until this is
// destroyed. No copy is then under way.
class Pin {
 public:
  virtual ~Pin() = default;
};

}  // namespace gemmd::device

#endif  // GEMMD_SERVICE_DEVICE_REGION_H_
