#include "service/engine/tensor.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "absl/time/clock.h"

namespace gemmd::engine {

Tensor::Tensor(Identity identity, std::unique_ptr<device::Matrix> matrix,
               QuotaHold quota)
    : identity_(std::move(identity)),
      quota_(std::move(quota)),
      matrix_(std::move(matrix)),
      last_use_(Clock::now()) {}

void Tensor::Touch() { last_use_ = Clock::now(); }

absl::Duration Tensor::idle() const {
  return absl::FromChrono(Clock::now() - last_use_.load());
}

absl::StatusOr<TensorLocks> TensorLocks::Acquire(
    std::vector<std::shared_ptr<Tensor>> read, std::shared_ptr<Tensor> written,
    absl::Time deadline) {
  std::erase(read, nullptr);
  std::erase(read, written);
  std::vector<Held> wanted;
  for (auto& tensor : read) wanted.push_back({std::move(tensor), false});
  if (written != nullptr) wanted.push_back({std::move(written), true});
  const auto address = [](const Held& held) { return held.tensor.get(); };
  std::ranges::sort(wanted, std::less<>(), address);
  const auto repeated = std::ranges::unique(wanted, std::equal_to<>(), address);
  wanted.erase(repeated.begin(), repeated.end());

  // A far deadline stands for none: clocks overflow beyond it.
  const auto until =
      absl::ToChronoTime(std::min(deadline, absl::Now() + absl::Hours(24)));
  TensorLocks locks;
  for (Held& held : wanted) {
    std::shared_timed_mutex& mutex = held.tensor->mutex_;
    const bool locked = held.exclusive ? mutex.try_lock_until(until)
                                       : mutex.try_lock_shared_until(until);
    if (!locked) {
      return absl::DeadlineExceededError(
          "the deadline passed while a tensor was in use");
    }
    locks.held_.push_back(std::move(held));
  }
  return locks;
}

TensorLocks::~TensorLocks() {
  for (Held& held : held_) {
    held.tensor->Touch();
    if (held.exclusive) {
      ++held.tensor->version_;
      held.tensor->forms_.Clear();
      held.tensor->mutex_.unlock();
    } else {
      held.tensor->mutex_.unlock_shared();
    }
  }
}

}  // namespace gemmd::engine
