#include "service/engine/tensor_locks.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace gemmd::engine {
namespace {

bool Admits(const Tensor::Users& users, bool writer) {
  return !users.writer && (!writer || users.readers == 0);
}

void Enter(Tensor::Users& users, bool writer) {
  if (writer) {
    users.writer = true;
  } else {
    ++users.readers;
  }
}

}  // namespace

bool TensorLocks::Acquire(Tensors read, Tensors written, Granted granted) {
  absl::InlinedVector<Use, 4> uses;
  for (const auto& tensor : written) {
    if (tensor != nullptr) uses.push_back({tensor, true});
  }
  for (const auto& tensor : read) {
    if (tensor != nullptr) uses.push_back({tensor, false});
  }
  // Of two uses of a tensor, the one that writes stays.
  std::ranges::sort(uses, std::less<>(), [](const Use& use) {
    return std::pair(use.tensor.get(), !use.writes);
  });
  const auto repeated = std::ranges::unique(
      uses, std::equal_to<>(), [](const Use& use) { return use.tensor.get(); });
  uses.erase(repeated.begin(), repeated.end());

  std::lock_guard lock(table_.mutex_);
  if (released_) return true;
  uses_ = std::move(uses);
  if (Advance()) return true;
  granted_ = std::move(granted);
  return false;
}

bool TensorLocks::Advance() {
  for (; next_ < uses_.size(); ++next_) {
    const Use& use = uses_[next_];
    Tensor::Users& users = use.tensor->users_;
    // Who comes later does not overtake, or a writer would wait for ever.
    if (!users.line.empty() || !Admits(users, use.writes)) {
      place_ = users.line.insert(users.line.end(), this);
      return false;
    }
    Enter(users, use.writes);
  }
  return true;
}

void TensorLocks::LetIn(Tensor& tensor, std::vector<Granted>& granted) {
  Tensor::Users& users = tensor.users_;
  while (!users.line.empty()) {
    TensorLocks& first = *users.line.front();
    const bool writes = first.uses_[first.next_].writes;
    if (!Admits(users, writes)) return;
    users.line.pop_front();
    Enter(users, writes);
    ++first.next_;
    if (first.Advance()) granted.push_back(std::move(first.granted_));
  }
}

void TensorLocks::Release() {
  absl::InlinedVector<Use, 4> uses;  // Destroyed after the lock, as is this:
  Granted dropped;
  std::vector<Granted> granted;
  absl::InlinedVector<Tensor*, 4> written;
  {
    std::lock_guard lock(table_.mutex_);
    if (released_) return;
    uses.swap(uses_);
    dropped = std::move(granted_);
    for (size_t i = 0; i < uses.size(); ++i) {
      Tensor& tensor = *uses[i].tensor;
      Tensor::Users& users = tensor.users_;
      if (i < next_) {
        tensor.Touch();
        if (uses[i].writes) {
          if (std::exchange(tensor.changes_, false)) {
            ++tensor.version_;
            written.push_back(&tensor);
          }
          users.writer = false;
        } else {
          --users.readers;
        }
      } else if (i == next_) {
        users.line.erase(place_);
      }
      LetIn(tensor, granted);
    }
    released_ = true;
  }
  // Of the old elements; their version tells them from new ones.
  for (Tensor* tensor : written) tensor->ForgetForms();
  for (Granted& call : granted) call();
}

}  // namespace gemmd::engine
