// Awaits a call of the engine: its answer comes on a thread of the engine and
// is carried back to the loop of the one who awaits.
#ifndef GEMMD_SERVICE_RPC_ENGINE_CALL_H_
#define GEMMD_SERVICE_RPC_ENGINE_CALL_H_

#include <grpcpp/alarm.h>

#include <atomic>
#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "jit/base/status.h"
#include "service/engine/engine.h"
#include "service/rpc/event_loop.h"

namespace gemmd::rpc {

// The answer of a call that runs while its coroutine does other things.
// co_await gives absl::StatusOr<T>; it must, before this is destroyed.
template <typename T>
class [[nodiscard]] EngineAnswer final : public Event {
 public:
  // `came`, if any, is called on the loop when the answer is there, whatever
  // the coroutine does then.
  explicit EngineAnswer(EventLoop& loop, std::function<void()> came = nullptr)
      : loop_(loop), on_come_(std::move(came)) {}
  EngineAnswer(const EngineAnswer&) = delete;

  // For the engine; once.
  engine::Done<T> Done() {
    loop_.Expect();
    return [answer = answer_, queue = loop_.queue(),
            event = static_cast<Event*>(this)](absl::StatusOr<T> result) {
      answer->result = std::move(result);
      answer->there.store(true, std::memory_order_release);
      answer->alarm.Set(queue, gpr_inf_past(GPR_CLOCK_REALTIME), event);
    };
  }

  bool await_ready() const { return came_; }
  void await_suspend(std::coroutine_handle<> handle) { handle_ = handle; }
  absl::StatusOr<T> await_resume() {
    CHECK(answer_->there.load(std::memory_order_acquire));
    return *std::move(answer_->result);
  }

  void Complete(bool) override {
    came_ = true;
    loop_.HasCome();
    if (on_come_) on_come_();
    if (handle_) handle_.resume();
  }

 private:
  // Shared, so that the alarm outlives the engine's use of it.
  struct Answer {
    std::optional<absl::StatusOr<T>> result;
    std::atomic<bool> there = false;
    grpc::Alarm alarm;
  };

  EventLoop& loop_;
  const std::function<void()> on_come_;  // May be null.
  const std::shared_ptr<Answer> answer_ = std::make_shared<Answer>();
  bool came_ = false;  // To the loop.
  std::coroutine_handle<> handle_;
};

// `Start` gets an engine::Done<T> and begins the call. co_await gives
// absl::StatusOr<T>.
template <typename T, typename Start>
class [[nodiscard]] EngineCall final {
 public:
  EngineCall(EventLoop& loop, Start start)
      : answer_(loop), start_(std::move(start)) {}
  EngineCall(const EngineCall&) = delete;

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    answer_.await_suspend(handle);
    start_(answer_.Done());
  }
  absl::StatusOr<T> await_resume() { return answer_.await_resume(); }

 private:
  EngineAnswer<T> answer_;
  Start start_;
};

template <typename T, typename Start>
EngineCall<T, Start> CallEngine(EventLoop& loop, Start start) {
  return EngineCall<T, Start>(loop, std::move(start));
}

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_ENGINE_CALL_H_
