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

absl::StatusOr<QuotaHold> TensorStore::Reserve(int64_t bytes) {
  auto hold = ReserveSpare(bytes);
  if (hold.ok()) return hold;
  for (const auto& tensor : List()) tensor->forms().Clear();
  return ReserveSpare(bytes);
}

absl::StatusOr<QuotaHold> TensorStore::ReserveSpare(int64_t bytes) {
  int64_t used = *used_bytes_;
  do {
    if (bytes > options_.max_bytes - used) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "a tensor of ", bytes, " bytes does not fit: ", used,
          " bytes of tensors are resident; the limit is ", options_.max_bytes));
    }
  } while (!used_bytes_->compare_exchange_weak(used, used + bytes));
  return QuotaHold(used_bytes_, bytes);
}

std::string TensorStore::NewHandle() {
  char random[16];
  CHECK(getrandom(random, sizeof random, 0) == sizeof random);
  return absl::BytesToHexString(absl::string_view(random, sizeof random));
}

absl::Status TensorStore::Insert(std::shared_ptr<Tensor> tensor) {
  const std::string& handle = tensor->identity().handle;
  std::lock_guard lock(mutex_);
  if (static_cast<int64_t>(tensors_.size()) >= options_.max_tensors) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", tensors_.size(), " tensors; the limit is ",
                     options_.max_tensors));
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

void TensorStore::Expire() {
  std::vector<std::shared_ptr<Tensor>> dropped;  // Freed after the lock.
  std::lock_guard lock(mutex_);
  absl::erase_if(tensors_, [&](const auto& entry) {
    const auto& tensor = entry.second;
    // A request that holds it is a use that has not ended.
    const bool expired =
        tensor.use_count() == 1 && tensor->idle() >= tensor->identity().ttl;
    if (expired) dropped.push_back(tensor);
    return expired;
  });
}

std::vector<std::shared_ptr<Tensor>> TensorStore::List() const {
  std::vector<std::shared_ptr<Tensor>> tensors;
  std::lock_guard lock(mutex_);
  tensors.reserve(tensors_.size());
  for (const auto& [handle, tensor] : tensors_) tensors.push_back(tensor);
  return tensors;
}

int64_t TensorStore::count() const {
  std::lock_guard lock(mutex_);
  return tensors_.size();
}

}  // namespace gemmd::engine
