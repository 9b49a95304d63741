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

  using Made = absl::StatusOr<std::shared_ptr<const device::Region>>;
  class Mapped;  // Memory of the host that is to be a region.

  // A handle for what may become a region. The descriptor may be absent.
  std::string Offer(GivenFd fd);
  // What follows makes a region of it, as regions.proto says. Of a memfd in
  // three steps: its descriptor is taken; it is mapped, which lasts for as long
  // as those like who have it, too, and write to it; `device` pins it, where it
  // pins at all, which takes its time. Who gives up withdraws the handle.
  absl::StatusOr<GivenFd> Take(const std::string& handle, Owner owner);
  absl::StatusOr<std::shared_ptr<Mapped>> Map(const std::string& handle,
                                              int memfd);
  Made Create(const std::string& handle, std::shared_ptr<Mapped> memory,
              device::Device& device);
  // Of memory of a device. Takes its time.
  Made Create(const std::string& handle, Owner owner,
              const DeviceMemory& memory);
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

  // Notes what the entry, which is being created, is to have of the host.
  absl::Status Reserve(const std::string& handle, int64_t bytes);
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
