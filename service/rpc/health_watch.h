// A call that waits for the health to change. Costs nothing while it does not.
// Of the thread of the call's loop.
#ifndef GEMMD_SERVICE_RPC_HEALTH_WATCH_H_
#define GEMMD_SERVICE_RPC_HEALTH_WATCH_H_

#include <grpcpp/alarm.h>

#include <coroutine>
#include <mutex>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "service/rpc/call.h"
#include "service/rpc/event_loop.h"
#include "service/rpc/health_state.h"

namespace gemmd::rpc {

class HealthWatch final : public Event {
 public:
  // Of one connection; its client has no use for more.
  static constexpr int kMaxPerConnection = 16;

  // Both outlive the watch.
  HealthWatch(Call& call, Health& health) : call_(call), health_(health) {}
  HealthWatch(const HealthWatch&) = delete;
  ~HealthWatch();

  // Once, before anything is waited for. RESOURCE_EXHAUSTED when the
  // connection has too many.
  absl::Status Open();

  // co_await: until the health has changed, or nobody waits for the call any
  // more, since the last time; at once when that was before.
  auto Change() { return ChangeAwaiter{*this}; }

  void Complete(bool) override { handle_.resume(); }

 private:
  friend class Health;

  struct ChangeAwaiter {
    bool await_ready() const { return false; }
    bool await_suspend(std::coroutine_handle<> handle) {
      return watch.Wait(handle);
    }
    void await_resume() const {}

    HealthWatch& watch;
  };

  // False when there is nothing to wait for.
  bool Wait(std::coroutine_handle<> handle);
  // On the loop, or by Health under its mutex.
  void Wake();

  Call& call_;
  Health& health_;
  std::optional<std::string> connection_;  // Once it is open.
  std::coroutine_handle<> handle_;
  std::mutex mutex_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_HEALTH_WATCH_H_
