#include "service/engine/tensor_store.h"

#include <sys/random.h>

#include <algorithm>
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

// Of a limit, what one identity may hold.
int64_t PartOfOne(int64_t limit) { return limit - limit / 4; }

// For so long a refusal presses those who hold room: they find that they are
// stalled, and who was refused tries again.
constexpr std::chrono::seconds kContention(10);

// Adds `bytes` to `used` unless that went beyond `limit`. What was used then,
// else -1. No bytes are granted also to who has too many, since his limit has
// been lowered.
int64_t AddWithin(std::atomic<int64_t>& used, int64_t bytes, int64_t limit) {
  int64_t before = used;
  do {
    if (bytes > 0 && bytes > limit - before) return before;
  } while (!used.compare_exchange_weak(before, before + bytes));
  return -1;
}

}  // namespace

TensorStore::TensorStore(Options options,
                         const std::vector<int64_t>& memory_bytes)
    : max_tensors_(options.max_tensors) {
  for (const int64_t memory : memory_bytes) {
    const int64_t all =
        options.max_bytes > 0 ? options.max_bytes : memory / 4 * 3;
    quotas_.push_back({all,
                       options.max_bytes_of_one > 0 ? options.max_bytes_of_one
                                                    : PartOfOne(all),
                       std::make_shared<std::atomic<int64_t>>(0),
                       std::make_shared<std::atomic<int64_t>>(0),
                       std::make_shared<std::atomic<int64_t>>(0)});
  }
}

absl::StatusOr<QuotaHold> TensorStore::Reserve(int device, int64_t bytes,
                                               const std::string& identity,
                                               bool again) {
  const Share share = ShareOf(device, identity);
  auto hold = Take(device, bytes, share);
  // Who has enough himself presses nobody, nor who would gain nothing by it.
  const bool modest = bytes <= attainable_bytes(device) &&
                      (share.used_bytes == nullptr ||
                       bytes <= share.max_bytes - *share.used_bytes);
  // Forms of others are not to be derived again for one who is refused anyway.
  const Quota& quota = quotas_[device];
  const int64_t spare = *quota.spare_bytes;
  if (!hold.ok() && modest && spare > 0 &&
      bytes <= quota.max_bytes - (*quota.used_bytes - spare)) {
    DropForms(device);
    hold = Take(device, bytes, share);
  }
  if (!hold.ok() && !again) ++refusals_;
  if (!hold.ok() && modest) refused_ = Clock::now();
  return hold;
}

absl::StatusOr<QuotaHold> TensorStore::ReserveSpare(int device, int64_t bytes) {
  return Take(device, bytes,
              {.used_bytes = quotas_[device].spare_bytes,
               .max_bytes = quotas_[device].max_bytes});
}

void TensorStore::DropForms(int device) {
  std::vector<std::shared_ptr<Tensor>> tensors;  // Cleared after the lock.
  {
    std::lock_guard lock(mutex_);
    for (const auto& [handle, tensor] : tensors_) tensors.push_back(tensor);
  }
  for (const auto& tensor : tensors) tensor->ForgetForms(device);
}

absl::StatusOr<QuotaHold> TensorStore::Take(int device, int64_t bytes,
                                            const Share& share) {
  const Quota& quota = quotas_[device];
  if (share.used_bytes != nullptr) {
    const int64_t used = AddWithin(*share.used_bytes, bytes, share.max_bytes);
    if (used >= 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "a tensor of ", bytes, " bytes does not fit: this client has ", used,
          " bytes of tensors; the limit of one is ", share.max_bytes));
    }
  }
  const int64_t used = AddWithin(*quota.used_bytes, bytes, quota.max_bytes);
  if (used >= 0) {
    if (share.used_bytes != nullptr) *share.used_bytes -= bytes;
    return absl::ResourceExhaustedError(absl::StrCat(
        "a tensor of ", bytes,
        " bytes does not fit beside those of all clients; the limit is ",
        quota.max_bytes));
  }
  return QuotaHold(quota.used_bytes, share.used_bytes, bytes);
}

TensorStore::Grant TensorStore::GrantOf(const std::string& identity) const {
  const auto found = grants_.find(identity);
  return found == grants_.end() ? Grant() : found->second;
}

void TensorStore::SetGrants(absl::flat_hash_map<std::string, Grant> grants) {
  std::lock_guard lock(mutex_);
  grants_ = std::move(grants);
}

TensorStore::Share TensorStore::ShareOf(int device,
                                        const std::string& identity) {
  if (identity.empty()) return Share();
  std::lock_guard lock(mutex_);
  if (owned_.size() >= prune_at_) {
    absl::erase_if(owned_, [](const auto& entry) {
      return entry.second.tensors.empty() &&
             std::ranges::all_of(entry.second.used_bytes, [](const auto& used) {
               return used == nullptr || used.use_count() == 1;
             });
    });
    prune_at_ = std::max<size_t>(64, 2 * owned_.size());
  }
  Owned& owned = owned_[identity];
  owned.used_bytes.resize(quotas_.size());
  QuotaHold::Counter& share = owned.used_bytes[device];
  if (share == nullptr) share = std::make_shared<std::atomic<int64_t>>(0);
  const int64_t granted = GrantOf(identity).max_bytes;
  return {share, granted > 0 ? granted : quotas_[device].max_bytes_of_one};
}

bool TensorStore::contended() const {
  return Clock::now() - refused_.load() < kContention;
}

void TensorStore::Uncount(const Tensor& tensor) {
  const Tensor::Identity& identity = tensor.identity();
  const auto owned = owned_.find(identity.owner);
  if (owned != owned_.end()) owned->second.tensors.erase(identity.handle);
  const auto bound = bound_.find(identity.connection);
  if (bound == bound_.end()) return;
  bound->second.erase(identity.handle);
  if (bound->second.empty()) bound_.erase(bound);
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
    ++refusals_;
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", tensors_.size(), " tensors; the limit is ",
                     max_tensors_));
  }
  const std::string& owner = tensor->identity().owner;
  const int64_t granted = GrantOf(owner).max_tensors;
  const int64_t share = granted > 0 ? granted : PartOfOne(max_tensors_);
  absl::btree_set<std::string>& own = owned_[owner].tensors;
  if (!owner.empty() && static_cast<int64_t>(own.size()) >= share) {
    ++refusals_;
    return absl::ResourceExhaustedError(
        absl::StrCat("this client has created ", own.size(),
                     " tensors; the limit of one is ", share));
  }
  own.insert(handle);
  if (tensor->identity().lifetime == Lifetime::kConnection) {
    bound_[tensor->identity().connection].insert(handle);
  }
  Keep(*tensor);
  tensors_[handle] = std::move(tensor);
  return absl::OkStatus();
}

void TensorStore::Keep(Tensor& tensor) {
  const int64_t bytes = tensor.layout().device_bytes();
  const Quota& quota = quotas_[tensor.identity().device];
  *quota.lasting_bytes += bytes;
  tensor.SetLasting(QuotaHold(quota.lasting_bytes, nullptr, bytes));
}

absl::StatusOr<std::shared_ptr<Tensor>> TensorStore::Find(
    const std::string& handle, const std::string& asker) {
  std::lock_guard lock(mutex_);
  const auto found = tensors_.find(handle);
  if (found == tensors_.end() || !found->second->MayBeUsedBy(asker)) {
    return UnknownTensor(handle);
  }
  found->second->Touch();
  return found->second;
}

absl::Status TensorStore::Delete(const std::string& handle,
                                 const std::string& asker, bool administers) {
  std::shared_ptr<Tensor> dropped;  // Freed after the lock.
  std::lock_guard lock(mutex_);
  const auto found = tensors_.find(handle);
  if (found == tensors_.end() ||
      !(administers || found->second->MayBeUsedBy(asker))) {
    return UnknownTensor(handle);
  }
  dropped = std::move(found->second);
  Uncount(*dropped);
  tensors_.erase(found);
  return absl::OkStatus();
}

template <typename Condition>
void TensorStore::DropIf(Condition condition) {
  std::vector<std::shared_ptr<Tensor>> dropped;  // Freed after the lock.
  std::lock_guard lock(mutex_);
  absl::erase_if(tensors_, [&](const auto& entry) {
    const bool drop = condition(entry.second);
    if (drop) {
      dropped.push_back(entry.second);
      Uncount(*entry.second);
    }
    return drop;
  });
}

void TensorStore::Expire() {
  DropIf([](const std::shared_ptr<Tensor>& tensor) {
    // A request that holds it is a use that has not ended.
    return tensor.use_count() == 1 && tensor->idle() >= tensor->identity().ttl;
  });
}

void TensorStore::Disconnect(const std::string& connection) {
  Tensors dropped;  // Freed after the lock.
  std::lock_guard lock(mutex_);
  const auto bound = bound_.find(connection);
  if (bound == bound_.end()) return;
  for (const std::string& handle : bound->second) {
    const auto found = tensors_.find(handle);
    dropped.push_back(std::move(found->second));
    tensors_.erase(found);
  }
  // Which ends with the last of them.
  for (const auto& tensor : dropped) Uncount(*tensor);
}

void TensorStore::Clear() {
  DropIf([](const std::shared_ptr<Tensor>&) { return true; });
}

TensorStore::Tensors TensorStore::List(const std::string& after,
                                       size_t most) const {
  Tensors tensors;
  std::lock_guard lock(mutex_);
  for (auto at = tensors_.upper_bound(after);
       at != tensors_.end() && tensors.size() < most; ++at) {
    tensors.push_back(at->second);
  }
  return tensors;
}

TensorStore::Tensors TensorStore::ListOf(const std::string& owner,
                                         const std::string& after,
                                         size_t most) const {
  Tensors tensors;
  std::lock_guard lock(mutex_);
  const auto owned = owned_.find(owner);
  if (owned == owned_.end()) return tensors;
  const absl::btree_set<std::string>& handles = owned->second.tensors;
  for (auto at = handles.upper_bound(after);
       at != handles.end() && tensors.size() < most; ++at) {
    tensors.push_back(tensors_.find(*at)->second);
  }
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

int64_t TensorStore::own_free_bytes(int device,
                                    const std::string& identity) const {
  std::lock_guard lock(mutex_);
  const auto owned = owned_.find(identity);
  const bool known = owned != owned_.end() &&
                     static_cast<int>(owned->second.used_bytes.size()) > device;
  const QuotaHold::Counter share =
      known ? owned->second.used_bytes[device] : nullptr;
  const int64_t used = share == nullptr ? 0 : share->load();
  const int64_t granted = GrantOf(identity).max_bytes;
  return (granted > 0 ? granted : quotas_[device].max_bytes_of_one) - used;
}

int64_t TensorStore::max_bytes_of_one(int device,
                                      const std::string& identity) const {
  const Quota& quota = quotas_[device];
  if (identity.empty()) return quota.max_bytes;
  std::lock_guard lock(mutex_);
  const int64_t granted = GrantOf(identity).max_bytes;
  return std::min(quota.max_bytes,
                  granted > 0 ? granted : quota.max_bytes_of_one);
}

int64_t TensorStore::free_bytes(int device, const std::string& identity) const {
  const Quota& quota = quotas_[device];
  const int64_t free = quota.max_bytes - *quota.used_bytes;
  if (identity.empty()) return free;
  return std::min(free, own_free_bytes(device, identity));
}

int64_t TensorStore::attainable_bytes(int device) const {
  const Quota& quota = quotas_[device];
  return quota.max_bytes - *quota.lasting_bytes;
}

TensorStore::Use TensorStore::UseOf(const std::string& owner) const {
  std::lock_guard lock(mutex_);
  const auto owned = owned_.find(owner);
  if (owned == owned_.end()) return Use();
  Use use = {.tensors = static_cast<int64_t>(owned->second.tensors.size())};
  for (const QuotaHold::Counter& bytes : owned->second.used_bytes) {
    if (bytes != nullptr) use.bytes += *bytes;
  }
  return use;
}

int64_t TensorStore::count() const {
  std::lock_guard lock(mutex_);
  return tensors_.size();
}

}  // namespace gemmd::engine
