// Memory of a device that clients share, for devices that are none: of a memfd
// in the place of an exported descriptor, or a block of its own in that of a
// handle of legacy IPC.
#ifndef GEMMD_TESTS_SERVICE_FAKE_ALLOCATION_H_
#define GEMMD_TESTS_SERVICE_FAKE_ALLOCATION_H_

#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/device/device.h"

namespace gemmd::testing {

class FakeAllocation final : public device::Imported {
 public:
  // That are mapped in this process.
  static inline std::atomic<int> live = 0;

  static absl::StatusOr<std::unique_ptr<device::Imported>> Import(
      const device::ImportHandle& handle) {
    constexpr int64_t kIpcBytes = 1 << 16;
    if (handle.import == device::Import::kIpc) {
      if (handle.ipc != IpcHandle()) {
        return absl::InvalidArgumentError("the driver does not take it");
      }
      return std::make_unique<FakeAllocation>(-1, kIpcBytes);
    }
    struct stat status = {};
    if (fstat(handle.fd, &status) != 0 || handle.bytes <= 0 ||
        status.st_size < handle.bytes) {
      return absl::InvalidArgumentError("the driver does not take it");
    }
    return std::make_unique<FakeAllocation>(handle.fd, handle.bytes);
  }
  static std::string IpcHandle() { return std::string(64, 'i'); }
  static std::string Uuid(int number) {
    return absl::StrCat("GPU-00000000-0000-0000-0000-00000000000", number);
  }

  FakeAllocation(int fd, int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)),
        at_(static_cast<char*>(
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                 fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0))) {
    ++live;
  }
  ~FakeAllocation() override {
    munmap(at_, bytes_);
    --live;
  }

  absl::Span<char> bytes() const override { return {at_, bytes_}; }

 private:
  const size_t bytes_;
  char* const at_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_FAKE_ALLOCATION_H_
