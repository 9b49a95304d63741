#include "service/rpc/event_loop.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace gemmd::rpc {
namespace {

constexpr absl::Duration kSweepInterval = absl::Milliseconds(250);
// Between two sweeps of a loop that keeps up; for what lasts longer clients
// are not to blame.
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);

}  // namespace

void Sleep::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  alarm_.Set(loop_.queue(), absl::ToChronoTime(absl::Now() + duration_),
             static_cast<Event*>(this));
}

void EventLoop::Start(std::function<void()> start,
                      std::function<void()> caught_up) {
  caught_up_ = std::move(caught_up);
  thread_ = std::thread([this, start = std::move(start)] {
    start();
    TickAfter(kSweepInterval);
    void* tag;
    bool ok;
    while (queue_->Next(&tag, &ok)) static_cast<Event*>(tag)->Complete(ok);
  });
}

// The tick after a sweep comes at once: behind all events that there are.
void EventLoop::Tick() {
  has_swept_ = !has_swept_;
  if (has_swept_) {
    Sweep();
    return TickAfter(absl::ZeroDuration());
  }
  if (caught_up_) caught_up_();
  TickAfter(kSweepInterval);
}

void EventLoop::TickAfter(absl::Duration time) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  ticker_.alarm.Set(queue(), absl::ToChronoTime(absl::Now() + time),
                    static_cast<Event*>(&ticker_));
}

void EventLoop::Sweep() {
  const absl::Time real = absl::Now();
  now_ += std::clamp(real - swept_at_, absl::ZeroDuration(), kLongestPause);
  swept_at_ = real;
  // A swept one may end, and remove itself, at once.
  for (auto it = swept_.begin(); it != swept_.end();) (*it++)->Sweep();
}

void EventLoop::SweepSoon() {
  std::lock_guard lock(mutex_);
  if (stopping_ || asked_) return;
  asked_ = true;
  soon_.alarm.Set(queue(), gpr_inf_past(GPR_CLOCK_REALTIME),
                  static_cast<Event*>(&soon_));
}

void EventLoop::SweepAsAsked() {
  {
    std::lock_guard lock(mutex_);
    asked_ = false;
  }
  Sweep();
}

EventLoop::~EventLoop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ticker_.alarm.Cancel();
  queue_->Shutdown();
  if (thread_.joinable()) {
    thread_.join();
    return;
  }
  void* tag;
  bool ok;
  while (queue_->Next(&tag, &ok)) {  // gRPC wants the queue empty.
  }
}

}  // namespace gemmd::rpc
