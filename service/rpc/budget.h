// Bytes that the daemon holds for its clients, of one kind: messages that
// arrive, or answers that leave. Whoever needs more than there is waits, on
// its loop, for its turn. Thread-safe.
//
// Two kinds and not one, because a call holds its request while it waits for
// room for its answer: of one kind, calls would wait for each other.
#ifndef GEMMD_SERVICE_RPC_BUDGET_H_
#define GEMMD_SERVICE_RPC_BUDGET_H_

#include <grpcpp/alarm.h>

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/rpc/event_loop.h"
#include "service/rpc/lines_by_size.h"

namespace gemmd::rpc {

class Budget {
 public:
  class Wait;
  // What one client holds; guarded by the budget.
  struct Account {
    int64_t held = 0;
    int64_t quota = 0;        // Of it, at most; 0: a share.
    int64_t borrowed = 0;     // Of what it holds.
    LinesBySize<Wait> waits;  // Its calls that wait.
  };

  // `what` is "requests" or "responses". One account without a quota holds at
  // most `share_bytes`, or one message that is larger.
  Budget(std::string what, int64_t total_bytes, int64_t share_bytes)
      : what_(std::move(what)),
        total_bytes_(total_bytes),
        share_bytes_(share_bytes) {}

  // What `account` holds beyond it already, it keeps.
  void SetQuota(Account& account, int64_t bytes);
  // What `account` could hold if nobody held anything.
  int64_t MostOf(const Account& account) const;

  // False when they do not fit, or when others wait for them.
  bool TryTake(Account& account, int64_t bytes);
  // For bytes that are there already: later ones wait for them.
  void Take(Account& account, int64_t bytes);
  void Return(Account& account, int64_t bytes);

  // A call that holds `bytes` waits, from now on or (negative) no longer, for
  // room on a device. Who has such room would wait for these bytes, and the
  // call for his room: he borrows as much, or one message, beside the total and
  // whatever his share is.
  void Lend(int64_t bytes);
  static constexpr int64_t kMostBorrowedBytes = 64 << 20;

  // Calls that wait.
  int64_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  bool contended() const { return waiting() > 0; }
  // Whether one of them waits for what `account` holds: its own, or one that
  // its share or quota allows more.
  bool WaitedFor(const Account& account) const;
  int64_t total_bytes() const { return total_bytes_; }
  int64_t held_bytes() const;

 private:
  // Accounts whose calls wait: who holds least comes first, then whose oldest
  // call waits longest.
  using Order = std::set<std::tuple<int64_t, int64_t, Account*>>;
  static Order::value_type PlaceOf(Account& account);

  int64_t Most(const Account& account) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the account's share or quota allows a call of it to take.
  int64_t Allowance(const Account& account) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Fits(int64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return bytes <= total_bytes_ - (held_bytes_ - borrowed_bytes_);
  }
  // What `account` holds changes, and who waits for more of it.
  void Hold(Account& account, int64_t bytes, Wait* begins = nullptr,
            Wait* ends = nullptr) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(Wait& wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `wait` ends, with what it waited for or with nothing.
  void Remove(Wait& wait, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whose turn it is, by the share of its account; null: nobody's.
  Wait* Next() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Who may take, though there is no room, what he borrows; null: nobody.
  Wait* Borrower() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets in those whose turn it is.
  void Admit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string what_;
  const int64_t total_bytes_;
  const int64_t share_bytes_;

  mutable std::mutex mutex_;
  int64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t borrowed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // Of these.
  int64_t lent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  Order order_ ABSL_GUARDED_BY(mutex_);
  LinesBySize<Wait> with_room_ ABSL_GUARDED_BY(mutex_);  // On a device.
  // Whose turn it is, and for whom there is no room yet.
  Wait* next_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<int64_t> waiting_ = 0;
};

// co_await: OK once the bytes are held; they must be returned then.
// RESOURCE_EXHAUSTED when they can never fit or did not until `until`.
// `has_room`: on a device, see Lend.
class [[nodiscard]] Budget::Wait final : public Event {
 public:
  Wait(Budget& budget, Account& account, int64_t bytes, EventLoop& loop,
       absl::Time until, bool has_room = false)
      : budget_(budget),
        account_(account),
        bytes_(bytes),
        loop_(loop),
        until_(until),
        has_room_(has_room) {}
  Wait(const Wait&) = delete;

  bool await_ready();
  void await_suspend(std::coroutine_handle<> handle);
  absl::Status await_resume();

  int64_t bytes() const { return bytes_; }
  int64_t number() const { return number_; }

  // On the loop: ends the wait at once.
  void GiveUp() { alarm_.Cancel(); }

  void Complete(bool) override;

 private:
  friend class Budget;

  Budget& budget_;
  Account& account_;
  const int64_t bytes_;
  EventLoop& loop_;
  const absl::Time until_;
  const bool has_room_;
  // Fires at `until_`, or at once when it is cancelled: in both cases one
  // event on the loop, which looks at what has happened.
  grpc::Alarm alarm_;
  std::coroutine_handle<> handle_;
  int64_t number_ = 0;    // Of those that began to wait.
  bool granted_ = false;  // Guarded by the budget while it waits.
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_BUDGET_H_
