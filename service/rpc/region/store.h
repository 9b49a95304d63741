// The regions of a daemon by handle, and the offers that may become some: a
// descriptor, or none, of memory that has another name.
// Thread-safe.
#ifndef GEMMD_SERVICE_RPC_REGION_STORE_H_
#define GEMMD_SERVICE_RPC_REGION_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "service/device/device.h"
#include "service/rpc/given_fd.h"

namespace gemmd::rpc::region {

// Whose a region is.
struct Owner {
  std::string identity;
  bool exclusive = false;  // Nobody else uses it.
};

// Memory of a device that a client says he has.
struct DeviceMemory {
  device::Device& device;
  int number = 0;          // Of it.
  int64_t bytes = 0;       // Where a descriptor was offered.
  std::string ipc_handle;  // Where none was.
};

class Store {
 public:
  // Of all regions of host memory together, with those that are gone but still
  // used by a product. 0: there are none.
  explicit Store(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // A handle for what may become a region. The descriptor may be absent.
  std::string Offer(GivenFd fd);
  // Makes a region of it, as regions.proto says: of a memfd, which `device`
  // pins, where it pins at all, or of memory of a device. Takes its time.
  absl::StatusOr<std::shared_ptr<const device::Region>> Create(
      const std::string& handle, Owner owner, device::Device& device);
  absl::StatusOr<std::shared_ptr<const device::Region>> Create(
      const std::string& handle, Owner owner, const DeviceMemory& memory);
  enum class State {
    kUnknown,  // Or it could not be created.
    kOffered,
    kCreating,
    kCreated,
  };
  State StateOf(const std::string& handle) const;
  // Nobody knows the handle any more.
  void Withdraw(const std::string& handle);

  // NOT_FOUND, also for what `asker` may not use.
  absl::StatusOr<std::shared_ptr<const device::Region>> Find(
      const std::string& handle, const std::string& asker) const;

  int64_t bytes() const { return *bytes_; }
  int64_t max_bytes() const { return max_bytes_; }

 private:
  class Mapped;
  class OnDevice;
  struct Entry {
    GivenFd fd;  // Until Create takes it.
    bool is_taken = false;
    Owner owner;
    bool counts = false;                           // As one of its owner's,
    int64_t bytes = 0;                             // with these of host memory.
    std::shared_ptr<const device::Region> region;  // Null until it is there.
  };
  // A region that was withdrawn: it counts as long as a call uses it.
  struct Leaving {
    std::string identity;
    int64_t bytes = 0;
    std::weak_ptr<const device::Region> region;
  };
  using Made = absl::StatusOr<std::shared_ptr<const device::Region>>;

  // The descriptor of an offer.
  absl::StatusOr<GivenFd> Take(const std::string& handle, Owner owner);
  // Notes what the entry, which is being created, is to have of the host.
  absl::Status Reserve(const std::string& handle, int64_t bytes);
  Made Map(const std::string& handle, int memfd, device::Device& device);
  Made Import(const std::string& handle, int fd, const DeviceMemory& memory);
  // What has been made of an offer that was taken.
  Made Keep(const std::string& handle, Made region);

  const int64_t max_bytes_;
  const std::shared_ptr<std::atomic<int64_t>> bytes_ =
      std::make_shared<std::atomic<int64_t>>(0);

  mutable std::mutex mutex_;
  absl::flat_hash_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::vector<Leaving> leaving_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::rpc::region

#endif  // GEMMD_SERVICE_RPC_REGION_STORE_H_
