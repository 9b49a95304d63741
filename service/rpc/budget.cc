#include "service/rpc/budget.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "service/engine/try_again.h"
#include "service/rpc/grpc_time.h"

namespace gemmd::rpc {

int64_t Budget::Most(const Account& account) const {
  return account.quota > 0 ? std::min(account.quota, total_bytes_)
                           : total_bytes_;
}

int64_t Budget::Allowance(const Account& account) const {
  if (account.quota > 0) return account.quota - account.held;
  return account.held == 0 ? std::numeric_limits<int64_t>::max()
                           : share_bytes_ - account.held;
}

Budget::Order::value_type Budget::PlaceOf(Account& account) {
  return {account.held, account.waits.First()->number(), &account};
}

void Budget::Hold(Account& account, int64_t bytes, Wait* begins, Wait* ends) {
  if (!account.waits.empty()) order_.erase(PlaceOf(account));
  account.held += bytes;
  held_bytes_ += bytes;
  if (begins != nullptr) account.waits.Add(*begins);
  if (ends != nullptr) account.waits.Remove(*ends);
  if (!account.waits.empty()) order_.insert(PlaceOf(account));
}

void Budget::Add(Wait& wait) {
  wait.number_ = ++last_number_;
  Hold(wait.account_, 0, &wait, nullptr);
  if (wait.has_room_) with_room_.Add(wait);
  ++waiting_;
}

void Budget::Remove(Wait& wait, int64_t bytes) {
  Hold(wait.account_, bytes, nullptr, &wait);
  if (wait.has_room_) with_room_.Remove(wait);
  --waiting_;
}

Budget::Wait* Budget::Next() const {
  for (const auto& [held, number, account] : order_) {
    Wait* const wait = account->waits.First(Allowance(*account));
    if (wait != nullptr) return wait;
  }
  return nullptr;
}

Budget::Wait* Budget::Borrower() const {
  if (lent_bytes_ == 0) return nullptr;
  const int64_t most = borrowed_bytes_ == 0 ? kMostBorrowedBytes : lent_bytes_;
  return with_room_.First(std::min(most, kMostBorrowedBytes) - borrowed_bytes_);
}

bool Budget::TryTake(Account& account, int64_t bytes) {
  std::lock_guard lock(mutex_);
  // Those who wait for their own share keep nobody else waiting.
  if (next_ != nullptr || bytes > Allowance(account) || !Fits(bytes)) {
    return false;
  }
  Hold(account, bytes);
  return true;
}

void Budget::Take(Account& account, int64_t bytes) {
  std::lock_guard lock(mutex_);
  Hold(account, bytes);
  Admit();  // Perhaps its turn passes to another account.
}

void Budget::Return(Account& account, int64_t bytes) {
  std::lock_guard lock(mutex_);
  Hold(account, -bytes);
  // Whichever of its calls gives them back.
  const int64_t repaid = std::min(account.borrowed, bytes);
  account.borrowed -= repaid;
  borrowed_bytes_ -= repaid;
  Admit();
}

void Budget::Lend(int64_t bytes) {
  std::lock_guard lock(mutex_);
  lent_bytes_ += bytes;
  Admit();
}

bool Budget::WaitedFor(const Account& account) const {
  if (!contended()) return false;
  std::lock_guard lock(mutex_);
  return next_ != nullptr || !account.waits.empty() ||
         (account.borrowed > 0 && !with_room_.empty());
}

void Budget::SetQuota(Account& account, int64_t bytes) {
  std::lock_guard lock(mutex_);
  account.quota = bytes;
  Admit();
}

int64_t Budget::MostOf(const Account& account) const {
  std::lock_guard lock(mutex_);
  return Most(account);
}

int64_t Budget::held_bytes() const {
  std::lock_guard lock(mutex_);
  return held_bytes_;
}

// The next one is waited for: large messages are not overtaken until they
// starve. Who borrows takes nothing of what they wait for.
void Budget::Admit() {
  while (true) {
    next_ = Next();
    Wait* granted = next_;
    if (granted == nullptr || !Fits(granted->bytes_)) {
      granted = Borrower();
      if (granted == nullptr) return;
      granted->account_.borrowed += granted->bytes_;
      borrowed_bytes_ += granted->bytes_;
    }
    Remove(*granted, granted->bytes_);
    granted->granted_ = true;
    // Under the lock, which Complete takes before the wait may be destroyed.
    granted->alarm_.Cancel();
  }
}

bool Budget::Wait::await_ready() {
  granted_ = budget_.TryTake(account_, bytes_);
  return granted_ || bytes_ > budget_.MostOf(account_);
}

void Budget::Wait::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  std::lock_guard lock(budget_.mutex_);
  alarm_.Set(loop_.queue(), At(until_), static_cast<Event*>(this));
  budget_.Add(*this);
  budget_.Admit();
}

void Budget::Wait::Complete(bool) {
  {
    std::lock_guard lock(budget_.mutex_);
    if (!granted_) {
      budget_.Remove(*this, 0);
      budget_.Admit();  // Perhaps only this one stood in the way.
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
