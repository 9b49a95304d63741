#include "service/engine/tensor_store.h"

#include <sys/random.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::engine {
namespace {

// Handles may come from anywhere; only what looks like one is echoed.
absl::Status UnknownTensor(const std::string& handle) {
  if (handle.size() != 32) {
    return absl::NotFoundError(
        "no such tensor: a handle has 32 hexadecimal digits");
  }
  return absl::NotFoundError(
      absl::StrCat("no tensor ", absl::CHexEscape(handle),
                   ": never created, deleted, or expired"));
}

}  // namespace

TensorStore::TensorStore(Options options,
                         const std::vector<int64_t>& memory_bytes)
    : max_tensors_(options.max_tensors) {
  for (const int64_t memory : memory_bytes) {
    quotas_.push_back(
        {options.max_bytes > 0 ? options.max_bytes : memory / 4 * 3,
         std::make_shared<std::atomic<int64_t>>(0)});
  }
}

absl::StatusOr<QuotaHold> TensorStore::Reserve(int device, int64_t bytes) {
  auto hold = ReserveSpare(device, bytes);
  if (hold.ok()) return hold;
  for (const auto& tensor : List()) {
    if (tensor->identity().device == device) tensor->forms().Clear();
  }
  return ReserveSpare(device, bytes);
}

absl::StatusOr<QuotaHold> TensorStore::ReserveSpare(int device, int64_t bytes) {
  const Quota& quota = quotas_[device];
  int64_t used = *quota.used_bytes;
  do {
    if (bytes > quota.max_bytes - used) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "a tensor of ", bytes, " bytes does not fit: ", used,
          " bytes of tensors are resident; the limit is ", quota.max_bytes));
    }
  } while (!quota.used_bytes->compare_exchange_weak(used, used + bytes));
  return QuotaHold(quota.used_bytes, bytes);
}

std::string TensorStore::NewHandle() {
  char random[16];
  CHECK(getrandom(random, sizeof random, 0) == sizeof random);
  return absl::BytesToHexString(absl::string_view(random, sizeof random));
}

absl::Status TensorStore::Insert(std::shared_ptr<Tensor> tensor) {
  const std::string& handle = tensor->identity().handle;
  std::lock_guard lock(mutex_);
  if (static_cast<int64_t>(tensors_.size()) >= max_tensors_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", tensors_.size(), " tensors; the limit is ",
                     max_tensors_));
  }
  tensors_[handle] = std::move(tensor);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Tensor>> TensorStore::Find(
    const std::string& handle) {
  std::lock_guard lock(mutex_);
  const auto found = tensors_.find(handle);
  if (found == tensors_.end()) return UnknownTensor(handle);
  found->second->Touch();
  return found->second;
}

absl::Status TensorStore::Delete(const std::string& handle) {
  std::shared_ptr<Tensor> dropped;  // Freed after the lock.
  std::lock_guard lock(mutex_);
  const auto found = tensors_.find(handle);
  if (found == tensors_.end()) return UnknownTensor(handle);
  dropped = std::move(found->second);
  tensors_.erase(found);
  return absl::OkStatus();
}

template <typename Condition>
void TensorStore::DropIf(Condition condition) {
  std::vector<std::shared_ptr<Tensor>> dropped;  // Freed after the lock.
  std::lock_guard lock(mutex_);
  absl::erase_if(tensors_, [&](const auto& entry) {
    const bool drop = condition(entry.second);
    if (drop) dropped.push_back(entry.second);
    return drop;
  });
}

void TensorStore::Expire() {
  DropIf([](const std::shared_ptr<Tensor>& tensor) {
    // A request that holds it is a use that has not ended.
    return tensor.use_count() == 1 && tensor->idle() >= tensor->identity().ttl;
  });
}

void TensorStore::Disconnect(const std::string& owner) {
  DropIf([&](const std::shared_ptr<Tensor>& tensor) {
    return tensor->identity().lifetime == Lifetime::kConnection &&
           tensor->identity().owner == owner;
  });
}

std::vector<std::shared_ptr<Tensor>> TensorStore::List() const {
  std::vector<std::shared_ptr<Tensor>> tensors;
  std::lock_guard lock(mutex_);
  tensors.reserve(tensors_.size());
  for (const auto& [handle, tensor] : tensors_) tensors.push_back(tensor);
  return tensors;
}

std::vector<std::shared_ptr<Tensor>> TensorStore::ListOf(
    const std::string& owner) const {
  std::vector<std::shared_ptr<Tensor>> tensors = List();
  std::erase_if(tensors, [&](const std::shared_ptr<Tensor>& tensor) {
    return tensor->identity().owner != owner;
  });
  return tensors;
}

int64_t TensorStore::bytes() const {
  int64_t sum = 0;
  for (const Quota& quota : quotas_) sum += *quota.used_bytes;
  return sum;
}

int64_t TensorStore::max_bytes() const {
  int64_t sum = 0;
  for (const Quota& quota : quotas_) sum += quota.max_bytes;
  return sum;
}

int64_t TensorStore::free_bytes(int device) const {
  return quotas_[device].max_bytes - *quotas_[device].used_bytes;
}

int64_t TensorStore::count() const {
  std::lock_guard lock(mutex_);
  return tensors_.size();
}

}  // namespace gemmd::engine
