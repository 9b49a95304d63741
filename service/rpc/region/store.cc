#include "service/rpc/region/store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/engine/tensor_store.h"
#include "service/log/log.h"
#include "service/rpc/region/mapping.h"

namespace gemmd::rpc::region {
namespace {

// What a connection costs beside its bytes.
constexpr int64_t kMaxRegionsOfOne = 64;

using RegionPointer = std::shared_ptr<const device::Region>;

absl::Status Unknown() {
  return absl::NotFoundError(
      "no such region: never offered, not created within ten seconds, or its "
      "connection has ended");
}

// Bytes of a counter, given back at the end.
class Hold {
 public:
  Hold(std::shared_ptr<std::atomic<int64_t>> counter, int64_t bytes)
      : counter_(std::move(counter)), bytes_(bytes) {}
  Hold(Hold&&) = default;
  ~Hold() {
    if (counter_ != nullptr) *counter_ -= bytes_;
  }

 private:
  std::shared_ptr<std::atomic<int64_t>> counter_;
  int64_t bytes_;
};

}  // namespace

class Store::Mapped final : public device::Region {
 public:
  Mapped(Hold hold, Mapping mapping)
      : hold_(std::move(hold)), mapping_(std::move(mapping)) {}

  // Before anybody else has it.
  void Pin(device::Device& device) {
    auto pin = device.PinMemory(bytes());
    if (pin.ok()) {
      pin_ = *std::move(pin);
    } else {  // It serves without, if not as fast.
      log::Write(
          log::Level::kWarning, "region_not_pinned",
          {{"bytes", bytes().size()}, {"message", pin.status().message()}});
    }
  }

  absl::Span<char> bytes() const override { return mapping_.bytes(); }
  bool pinned() const override { return pin_ != nullptr; }

 private:
  const Hold hold_;
  const Mapping mapping_;
  std::unique_ptr<device::Pin> pin_;  // Ends before the mapping.
};

class Store::OnDevice final : public device::Region {
 public:
  OnDevice(int device, device::Import import,
           std::unique_ptr<device::Imported> memory)
      : device_(device), import_(import), memory_(std::move(memory)) {}

  absl::Span<char> bytes() const override { return memory_->bytes(); }
  bool pinned() const override { return false; }
  int device() const override { return device_; }
  device::Import import() const override { return import_; }

 private:
  const int device_;
  const device::Import import_;
  const std::unique_ptr<device::Imported> memory_;
};

std::string Store::Offer(GivenFd fd) {
  std::string handle = engine::TensorStore::NewHandle();
  std::lock_guard lock(mutex_);
  entries_[handle].fd = std::move(fd);
  return handle;
}

Store::State Store::StateOf(const std::string& handle) const {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return State::kUnknown;
  if (!found->second.is_taken) return State::kOffered;
  return found->second.region == nullptr ? State::kCreating : State::kCreated;
}

void Store::Withdraw(const std::string& handle) {
  Entry dropped;  // Unmapped after the lock.
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return;
  dropped = std::move(found->second);
  entries_.erase(found);
  std::erase_if(leaving_,
                [](const Leaving& one) { return one.region.expired(); });
  if (dropped.region == nullptr) return;
  leaving_.push_back({dropped.owner.identity, dropped.bytes, dropped.region});
}

absl::StatusOr<GivenFd> Store::Take(const std::string& handle, Owner owner) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return Unknown();
  Entry& entry = found->second;
  if (entry.is_taken) {
    return absl::AlreadyExistsError(
        "the region has been created; allowed: once for each descriptor");
  }
  entry.is_taken = true;
  entry.owner = std::move(owner);
  return std::move(entry.fd);
}

absl::Status Store::Reserve(const std::string& handle, int64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return Unknown();
  const std::string& identity = found->second.owner.identity;
  int64_t own_count = 0;
  int64_t own_bytes = 0;
  const auto add = [&](bool counts, const std::string& owner, int64_t size) {
    if (!counts || owner != identity) return;
    ++own_count;
    own_bytes += size;
  };
  for (const auto& [other, entry] : entries_) {
    add(entry.counts, entry.owner.identity, entry.bytes);
  }
  for (const Leaving& one : leaving_) {
    add(!one.region.expired(), one.identity, one.bytes);
  }
  if (own_count >= kMaxRegionsOfOne) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this client has ", own_count,
                     " regions; the limit of one is ", kMaxRegionsOfOne));
  }
  const int64_t most = max_bytes_ - max_bytes_ / 4;
  if (bytes > most - own_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a region of ", bytes, " bytes does not fit: this client has ",
        own_bytes, " bytes of regions; the limit of one is ", most));
  }
  if (bytes > max_bytes_ - *bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a region of ", bytes,
        " bytes does not fit beside those of all clients; the limit is ",
        max_bytes_));
  }
  found->second.counts = true;
  found->second.bytes = bytes;
  *bytes_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Store::Mapped>> Store::Map(
    const std::string& handle, int memfd) {
  if (memfd < 0) {
    return absl::InvalidArgumentError(
        "no descriptor was sent; allowed: that of a memfd, or device_memory");
  }
  ASSIGN_OR_RETURN(const int64_t bytes, FixSize(memfd));
  RETURN_IF_ERROR(Reserve(handle, bytes));
  Hold hold(bytes_, bytes);
  ASSIGN_OR_RETURN(Mapping mapping, Mapping::Of(memfd, bytes));
  return std::make_shared<Mapped>(std::move(hold), std::move(mapping));
}

Store::Made Store::Import(const std::string& handle, int fd,
                          const DeviceMemory& memory) {
  const bool is_vmm = fd >= 0;
  if (is_vmm != memory.ipc_handle.empty()) {
    return absl::InvalidArgumentError(
        is_vmm ? "device_memory.ipc_handle is given and a descriptor was sent; "
                 "allowed: one of both"
               : "no descriptor was sent; allowed: that of the memory, or "
                 "device_memory.ipc_handle");
  }
  RETURN_IF_ERROR(Reserve(handle, 0));
  const device::ImportHandle from = {
      .import = is_vmm ? device::Import::kVmm : device::Import::kIpc,
      .fd = fd,
      .bytes = memory.bytes,
      .ipc = memory.ipc_handle};
  ASSIGN_OR_RETURN(auto imported, memory.device.ImportMemory(from));
  return std::make_shared<OnDevice>(memory.number, from.import,
                                    std::move(imported));
}

Store::Made Store::Keep(const std::string& handle, Made region) {
  if (!region.ok()) {
    Withdraw(handle);
    return region;
  }
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return Unknown();
  found->second.region = *region;
  return region;
}

Store::Made Store::Create(const std::string& handle,
                          std::shared_ptr<Mapped> memory,
                          device::Device& device) {
  memory->Pin(device);
  return Keep(handle, RegionPointer(std::move(memory)));
}

Store::Made Store::Create(const std::string& handle, Owner owner,
                          const DeviceMemory& memory) {
  ASSIGN_OR_RETURN(const GivenFd fd, Take(handle, std::move(owner)));
  return Keep(handle, Import(handle, fd.get(), memory));
}

absl::StatusOr<RegionPointer> Store::Find(const std::string& handle,
                                          const std::string& asker) const {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end() || found->second.region == nullptr ||
      (found->second.owner.exclusive &&
       found->second.owner.identity != asker)) {
    return Unknown();
  }
  return found->second.region;
}

}  // namespace gemmd::rpc::region
