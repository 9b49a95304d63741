// Memory that a client and the daemon share: of the host, or of a device.
// Whoever reads it has to expect that its bytes change meanwhile, and to look
// at each but once.
//
// Its bytes stay where they are for as long as somebody holds it. Thread-safe.
#ifndef GEMMD_SERVICE_DEVICE_REGION_H_
#define GEMMD_SERVICE_DEVICE_REGION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"

namespace gemmd::device {

// How memory of a device passes from one process to another.
enum class Import : uint8_t {
  kVmm,  // A descriptor of virtual memory management.
  kIpc,  // 64 bytes, of an allocation that has no descriptor.
};

class Region {
 public:
  static constexpr int kHost = -1;

  virtual ~Region() = default;

  // Of a device's memory these are addresses there: for that device to read and
  // write, and for nobody else.
  virtual absl::Span<char> bytes() const = 0;
  // Devices copy from and to it by themselves.
  virtual bool pinned() const = 0;
  // The number of the device whose memory it is, or kHost.
  virtual int device() const { return kHost; }
  // Of a device's memory.
  virtual Import import() const { return Import::kVmm; }
};

inline bool IsOnDevice(const Region* region) {
  return region != nullptr && region->device() != Region::kHost;
}

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

// What names an allocation of another process.
struct ImportHandle {
  Import import = Import::kVmm;
  int fd = -1;        // Of kVmm; not taken over.
  int64_t bytes = 0;  // Of kVmm: of the allocation, as its owner says.
  std::string ipc;    // Of kIpc.
};

// Such an allocation, mapped until this is destroyed. No work uses it then.
class Imported {
 public:
  virtual ~Imported() = default;

  // As Region::bytes: as many as there are, whatever its owner said.
  virtual absl::Span<char> bytes() const = 0;
};

}  // namespace gemmd::device

#endif  // GEMMD_SERVICE_DEVICE_REGION_H_
