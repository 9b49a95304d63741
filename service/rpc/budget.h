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
#include <list>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/rpc/event_loop.h"

namespace gemmd::rpc {

class Budget {
 public:
  // What one client holds; guarded by the budget.
  struct Account {
    int64_t held = 0;
    int64_t quota = 0;     // Of it, at most; 0: a share.
    int64_t borrowed = 0;  // Of what it holds.
  };
  class Wait;

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
  int64_t Most(const Account& account) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Fits(const Account& account, int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ShareAllows(const Account& account, int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayBorrow(const Wait& wait) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Grant(std::list<Wait*>::iterator at)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets in those whose turn it is.
  void Admit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string what_;
  const int64_t total_bytes_;
  const int64_t share_bytes_;

  mutable std::mutex mutex_;
  int64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t borrowed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // Of these.
  int64_t lent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Wait*> waits_ ABSL_GUARDED_BY(mutex_);  // Oldest first.
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
  bool granted_ = false;  // Guarded by the budget while it waits.
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_BUDGET_H_
