#include "service/rpc/budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/engine/try_again.h"
#include "service/rpc/grpc_time.h"

namespace gemmd::rpc {

int64_t Budget::Most(const Account& account) const {
  return account.quota > 0 ? std::min(account.quota, total_bytes_)
                           : total_bytes_;
}

bool Budget::ShareAllows(const Account& account, int64_t bytes) const {
  if (account.quota > 0) return account.held + bytes <= account.quota;
  return account.held == 0 || account.held + bytes <= share_bytes_;
}

bool Budget::Fits(const Account& account, int64_t bytes) const {
  return bytes <= total_bytes_ - (held_bytes_ - borrowed_bytes_) &&
         ShareAllows(account, bytes);
}

bool Budget::MayBorrow(const Wait& wait) const {
  if (!wait.has_room_ || lent_bytes_ == 0) return false;
  const int64_t most = borrowed_bytes_ == 0 ? kMostBorrowedBytes : lent_bytes_;
  return wait.bytes_ <= std::min(most, kMostBorrowedBytes) - borrowed_bytes_;
}

bool Budget::TryTake(Account& account, int64_t bytes) {
  std::lock_guard lock(mutex_);
  // Those who wait for their own share keep nobody else waiting.
  for (const Wait* wait : waits_) {
    if (ShareAllows(wait->account_, wait->bytes_)) return false;
  }
  if (!Fits(account, bytes)) return false;
  account.held += bytes;
  held_bytes_ += bytes;
  return true;
}

void Budget::Take(Account& account, int64_t bytes) {
  std::lock_guard lock(mutex_);
  account.held += bytes;
  held_bytes_ += bytes;
}

void Budget::Return(Account& account, int64_t bytes) {
  std::lock_guard lock(mutex_);
  account.held -= bytes;
  held_bytes_ -= bytes;
  // Whichever of its calls gives them back.
  const int64_t repaid = std::min(account.borrowed, bytes);
  account.borrowed -= repaid;
  borrowed_bytes_ -= repaid;
  if (!waits_.empty()) Admit();
}

void Budget::Lend(int64_t bytes) {
  std::lock_guard lock(mutex_);
  lent_bytes_ += bytes;
  if (!waits_.empty()) Admit();
}

bool Budget::WaitedFor(const Account& account) const {
  if (!contended()) return false;
  std::lock_guard lock(mutex_);
  for (const Wait* wait : waits_) {
    if (&wait->account_ == &account ||
        ShareAllows(wait->account_, wait->bytes_) ||
        (wait->has_room_ && account.borrowed > 0)) {
      return true;
    }
  }
  return false;
}

void Budget::SetQuota(Account& account, int64_t bytes) {
  std::lock_guard lock(mutex_);
  account.quota = bytes;
  if (!waits_.empty()) Admit();
}

int64_t Budget::MostOf(const Account& account) const {
  std::lock_guard lock(mutex_);
  return Most(account);
}

int64_t Budget::held_bytes() const {
  std::lock_guard lock(mutex_);
  return held_bytes_;
}

// Whoever holds least comes first, then whoever waits longest. The first one
// is waited for: large messages are not overtaken until they starve. Who
// borrows takes nothing of what they wait for.
void Budget::Admit() {
  while (true) {
    auto first = waits_.end();
    for (auto it = waits_.begin(); it != waits_.end(); ++it) {
      const Wait& wait = **it;
      if (!ShareAllows(wait.account_, wait.bytes_)) continue;
      if (first == waits_.end() ||
          wait.account_.held < (*first)->account_.held) {
        first = it;
      }
    }
    if (first == waits_.end() || !Fits((*first)->account_, (*first)->bytes_)) {
      first = std::ranges::find_if(
          waits_, [this](const Wait* wait) { return MayBorrow(*wait); });
      if (first == waits_.end()) return;
      (*first)->account_.borrowed += (*first)->bytes_;
      borrowed_bytes_ += (*first)->bytes_;
    }
    Grant(first);
  }
}

void Budget::Grant(std::list<Wait*>::iterator at) {
  Wait& wait = **at;
  wait.account_.held += wait.bytes_;
  held_bytes_ += wait.bytes_;
  wait.granted_ = true;
  waits_.erase(at);
  --waiting_;
  // Under the lock, which Complete takes before the wait may be destroyed.
  wait.alarm_.Cancel();
}

bool Budget::Wait::await_ready() {
  granted_ = budget_.TryTake(account_, bytes_);
  return granted_ || bytes_ > budget_.MostOf(account_);
}

void Budget::Wait::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  std::lock_guard lock(budget_.mutex_);
  alarm_.Set(loop_.queue(), At(until_), static_cast<Event*>(this));
  budget_.waits_.push_back(this);
  ++budget_.waiting_;
  budget_.Admit();
}

void Budget::Wait::Complete(bool) {
  {
    std::lock_guard lock(budget_.mutex_);
    if (!granted_) {
      budget_.waits_.remove(this);
      --budget_.waiting_;
      // Perhaps only this one stood in the way.
      budget_.Admit();
    }
  }
  handle_.resume();
}

absl::Status Budget::Wait::await_resume() {
  if (granted_) return absl::OkStatus();
  std::lock_guard lock(budget_.mutex_);
  const int64_t total = budget_.total_bytes_;
  const int64_t quota = account_.quota;
  if (bytes_ > budget_.Most(account_)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        bytes_, " bytes of ", budget_.what_, " can never be held: ",
        bytes_ > total
            ? absl::StrCat("the limit is ", total, " (--max-inflight-bytes)")
            : absl::StrCat("the principal's limit is ", quota,
                           " (max_in_flight_bytes)")));
  }
  return engine::TryAgainError(
      absl::StrCat(
          "the daemon waited for room for ", bytes_, " bytes of ",
          budget_.what_, " and did not get it; it holds ", budget_.held_bytes_,
          ", the limit is ", total, ", of which ",
          quota > 0
              ? absl::StrCat("the principal holds ", account_.held,
                             " and gets ", quota, " (max_in_flight_bytes)")
              : absl::StrCat("one connection gets ", budget_.share_bytes_)),
      absl::Seconds(1));
}

}  // namespace gemmd::rpc
