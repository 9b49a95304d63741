// Calls of one loop that have come and are yet to be begun. Connections take
// turns at it, so that who has one call does not wait for the hundreds of
// another: gRPC hands calls out in the order in which they came. Used on the
// loop alone.
#ifndef GEMMD_SERVICE_RPC_CALL_TURNS_H_
#define GEMMD_SERVICE_RPC_CALL_TURNS_H_

#include <coroutine>
#include <deque>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "service/rpc/event_loop.h"

namespace gemmd::rpc {

class CallTurns final : public Backlog {
 public:
  // Of beginning calls, before those that have come meanwhile are looked for,
  // which takes as long as beginning one of them.
  static constexpr absl::Duration kAtATime = absl::Microseconds(100);

  explicit CallTurns(absl::Duration at_a_time = kAtATime)
      : at_a_time_(at_a_time) {}

  // co_await: until it is the turn of a call of `connection`, which only tells
  // it from others. Not at all for one that came `alone`, where none waits.
  auto Turn(const void* connection, bool alone) {
    struct Awaiter {
      bool await_ready() const { return alone && turns.empty(); }
      void await_suspend(std::coroutine_handle<> call) {
        turns.Add(connection, call);
      }
      void await_resume() const {}

      CallTurns& turns;
      const void* connection;
      bool alone;
    };
    return Awaiter{*this, connection, alone};
  }

  bool empty() const override { return order_.empty(); }
  // Begins the oldest call of the connection whose turn it is, and so on for
  // some time.
  void TakeSome() override;

 private:
  void Add(const void* connection, std::coroutine_handle<> call);
  void BeginNext();

  const absl::Duration at_a_time_;

  // Those with calls, the next one first.
  std::list<const void*> order_;
  absl::flat_hash_map<const void*, std::deque<std::coroutine_handle<>>> calls_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_CALL_TURNS_H_
