#include "service/rpc/event_loop.h"

#include <algorithm>
#include <chrono>

#include "jit/base/steady_time.h"
#include "jit/base/thread_name.h"
#include "service/rpc/grpc_time.h"

namespace gemmd::rpc {
namespace {

constexpr absl::Duration kSweepInterval = absl::Milliseconds(250);
// Between two sweeps of a loop that keeps up; for what lasts longer clients
// are not to blame.
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);
// After which some of the backlog is taken up though there are events, which may
// have no end. It is long, as descriptors are looked at when there are none: of
// 16 connections with 100 small products each on the way, 69 products are
// answered between two calls of another one, with 2 ms here 89, with 1 ms 1605.
constexpr absl::Duration kLongestBacklog = absl::Milliseconds(5);
// For what has been set to be seen by a loop that is parked.
constexpr absl::Duration kParkedPoll = absl::Milliseconds(1);

}  // namespace

void Sleep::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  alarm_.Set(loop_.queue(), After(duration_), static_cast<Event*>(this));
}

void EventLoop::Start(std::function<void()> start,
                      std::function<void()> caught_up) {
  caught_up_ = std::move(caught_up);
  thread_ = std::thread([this, start = std::move(start)] {
    jit::NameThread("network");
    start();
    TickAfter(kSweepInterval);
    void* tag;
    bool ok;
    while (Next(&tag, &ok)) static_cast<Event*>(tag)->Complete(ok);
  });
}

// Who sleeps in the queue has to be woken, which takes longer than a small
// product does; who polls it without end has not. The more answers are
// expected, the sooner one of them should come.
bool EventLoop::Next(void** tag, bool* ok) {
  using Clock = std::chrono::steady_clock;
  using Status = grpc::CompletionQueue::NextStatus;
  while (backlog_ != nullptr && !backlog_->empty()) {
    const bool late = jit::SteadyNow() - backlog_taken_ > kLongestBacklog;
    // Twice, as gRPC looks at no descriptor once after it has queued an event.
    for (int i = 0; i < 2 && !late; ++i) {
      const Status status = Poll(tag, ok);
      if (status != Status::TIMEOUT) return status == Status::GOT_EVENT;
    }
    backlog_->TakeSome();
    backlog_taken_ = jit::SteadyNow();
  }
  if (parked_) return WaitParked(tag, ok);
  if (expected_ > 0 && spin_ > absl::ZeroDuration()) {
    const auto end =
        Clock::now() + absl::ToChronoNanoseconds(spin_ / expected_);
    do {
      const Status status = Poll(tag, ok);
      if (status != Status::TIMEOUT) return status == Status::GOT_EVENT;
    } while (Clock::now() < end);
  }
  return queue_->Next(tag, ok);
}

grpc::CompletionQueue::NextStatus EventLoop::Poll(void** tag, bool* ok) {
  return queue_->AsyncNext(tag, ok, gpr_inf_past(GPR_CLOCK_REALTIME));
}

// Alarms come to the queue by other threads, at their time.
bool EventLoop::WaitParked(void** tag, bool* ok) {
  while (true) {
    const auto status = queue_->AsyncNext(tag, ok, After(kParkedPoll));
    if (status == grpc::CompletionQueue::GOT_EVENT) return true;
    if (status == grpc::CompletionQueue::SHUTDOWN) return false;
    std::unique_lock lock(mutex_);
    nudged_.wait_for(lock, absl::ToChronoNanoseconds(kSweepInterval),
                     [this] { return stopping_ || nudges_ > seen_nudges_; });
    seen_nudges_ = nudges_;
  }
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
  ticker_.alarm.Set(queue(), After(time), static_cast<Event*>(&ticker_));
}

void EventLoop::Sweep() {
  const absl::Time real = jit::SteadyNow();
  now_ += std::clamp(real - swept_at_, absl::ZeroDuration(), kLongestPause);
  swept_at_ = real;
  // A swept one may end, and remove itself, at once.
  for (auto it = swept_.begin(); it != swept_.end();) (*it++)->Sweep();
}

void EventLoop::Nudge::Set() {
  std::lock_guard lock(loop_.mutex_);
  if (loop_.stopping_ || set_) return;
  set_ = true;
  alarm_.Set(loop_.queue(), gpr_inf_past(GPR_CLOCK_REALTIME),
             static_cast<Event*>(this));
  ++loop_.nudges_;
  loop_.nudged_.notify_all();
}

void EventLoop::Nudge::Complete(bool) {
  {
    std::lock_guard lock(loop_.mutex_);
    set_ = false;
  }
  what_();
}

EventLoop::~EventLoop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    nudged_.notify_all();
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
