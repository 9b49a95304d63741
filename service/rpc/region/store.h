// The regions of a daemon by handle, and the descriptors that may become some.
// Thread-safe.
#ifndef GEMMD_SERVICE_RPC_REGION_STORE_H_
#define GEMMD_SERVICE_RPC_REGION_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "jit/base/file.h"
#include "service/device/device.h"

namespace gemmd::rpc::region {

// Whose a region is.
struct Owner {
  std::string identity;
  bool exclusive = false;  // Nobody else uses it.
};

class Store {
 public:
  // Of all regions together, with those that are gone but still used by a
  // product. 0: there are none.
  explicit Store(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // A handle for what may become a region.
  std::string Offer(jit::UniqueFd memfd);
  // Makes a region of it, as regions.proto says. `device` pins the memory,
  // where it pins at all. Takes its time.
  absl::StatusOr<std::shared_ptr<const device::Region>> Create(
      const std::string& handle, Owner owner, device::Device& device);
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
  struct Entry {
    jit::UniqueFd memfd;  // Until Create takes it.
    Owner owner;
    int64_t bytes = 0;
    std::shared_ptr<const device::Region> region;  // Null until it is there.
  };

  // The descriptor of an offer.
  absl::StatusOr<jit::UniqueFd> Take(const std::string& handle, Owner owner);
  // Notes what the entry, which is being created, is to have.
  absl::Status Reserve(const std::string& handle, int64_t bytes);
  absl::StatusOr<std::shared_ptr<const device::Region>> Map(
      const std::string& handle, int memfd, device::Device& device);

  const int64_t max_bytes_;
  const std::shared_ptr<std::atomic<int64_t>> bytes_ =
      std::make_shared<std::atomic<int64_t>>(0);

  mutable std::mutex mutex_;
  absl::flat_hash_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::rpc::region

#endif  // GEMMD_SERVICE_RPC_REGION_STORE_H_
