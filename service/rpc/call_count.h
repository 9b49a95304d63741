// The calls of all connections together, from where they enter the process to
// their end: gRPC hands them out one after the other, keeps as many as clients
// begin, and says nothing of those that were taken back meanwhile.
// Thread-safe.
#ifndef GEMMD_SERVICE_RPC_CALL_COUNT_H_
#define GEMMD_SERVICE_RPC_CALL_COUNT_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace gemmd::rpc {

// A number that several threads change, never below 0.
class Tally {
 public:
  int64_t Add(int64_t count) { return value_ += count; }
  void Take(int64_t count) {
    int64_t value = value_;
    while (!value_.compare_exchange_weak(value,
                                         std::max<int64_t>(0, value - count))) {
    }
  }
  void Clear() { value_ = 0; }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_ = 0;
};

// The calls of one client. It may have an answer, and begin the next call,
// before the daemon knows that the first one is over: so those that have none
// are counted apart.
class OwnCalls {
 public:
  struct Number {
    int64_t all = 0;
    int64_t unanswered = 0;
  };

  // One more; with it.
  Number Begin() {
    const int64_t all = ++all_;
    return {all, ++unanswered_};
  }
  // One is answered; and over: how many are left?
  void Answer() { --unanswered_; }
  int64_t End() { return --all_; }

  int64_t all() const { return all_; }
  int64_t unanswered() const { return unanswered_; }

 private:
  std::atomic<int64_t> all_ = 0;
  std::atomic<int64_t> unanswered_ = 0;
};

class CallCount {
 public:
  struct Limits {
    int64_t all = 0;
    int64_t connection = 0;        // Of one connection, at most;
    int64_t connection_least = 0;  // in any case.
  };

  explicit CallCount(const Limits& limits) : limits_(limits) {}

  void Connect() { ++connections_; }
  void Disconnect() { --connections_; }

  // A connection has begun `count`; it has `own` with them. False when it has
  // too many, which ends it: more than one may have, or more than its part
  // while all together have too many.
  bool Begin(int64_t count, int64_t own) {
    waiting_.Add(count);
    if (own > limits_.connection) return false;
    if (begun() <= limits_.all) return true;
    const int64_t part =
        limits_.all / std::max<int64_t>(1, connections_.load());
    return own <= std::max(limits_.connection_least, part);
  }
  int64_t connections() const {
    return connections_.load(std::memory_order_relaxed);
  }
  // A connection has its first call, or none any more.
  void BecomesBusy() { ++busy_; }
  void BecomesIdle() { --busy_; }
  int64_t busy_connections() const {
    return busy_.load(std::memory_order_relaxed);
  }

  // gRPC has handed one out, which waits for its turn; which is begun; is over.
  void Queue() {
    ++queued_;
    waiting_.Take(1);
  }
  void Open() {
    --queued_;
    ++open_;
  }
  void Close() { --open_; }
  // Whether gRPC may have more to hand out.
  bool wait() const { return waiting_.value() > 0; }
  // gRPC has handed out all that there were; so often it has.
  void NoneWaits() {
    waiting_.Clear();
    ++emptied_;
  }
  int64_t emptied() const { return emptied_; }

  // Those that were handed out, and those that may be yet.
  int64_t begun() const {
    return open_.load(std::memory_order_relaxed) +
           queued_.load(std::memory_order_relaxed) + waiting_.value();
  }

 private:
  const Limits limits_;
  std::atomic<int64_t> connections_ = 0;
  std::atomic<int64_t> busy_ = 0;  // Of these, those that have calls.
  std::atomic<int64_t> open_ = 0;
  std::atomic<int64_t> queued_ = 0;
  Tally waiting_;
  std::atomic<int64_t> emptied_ = 0;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_CALL_COUNT_H_
