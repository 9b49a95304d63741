#include "service/rpc/event_loop.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace gemmd::rpc {
namespace {

constexpr absl::Duration kSweepInterval = absl::Milliseconds(250);
// Between two sweeps of a loop that is not stopped.
constexpr absl::Duration kLongestPause = absl::Seconds(1);

// Sweeps once, on the loop, and frees itself.
class SweepOnce final : public Event {
 public:
  explicit SweepOnce(EventLoop& loop) : loop_(loop) {
    alarm_.Set(loop.queue(), gpr_inf_past(GPR_CLOCK_REALTIME),
               static_cast<Event*>(this));
  }
  void Complete(bool) override {
    loop_.Sweep();
    delete this;
  }

 private:
  EventLoop& loop_;
  grpc::Alarm alarm_;
};

}  // namespace

void Sleep::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  alarm_.Set(loop_.queue(), absl::ToChronoTime(absl::Now() + duration_),
             static_cast<Event*>(this));
}

void EventLoop::Start(std::function<void()> start) {
  thread_ = std::thread([this, start = std::move(start)] {
    start();
    SweepLater();
    void* tag;
    bool ok;
    while (queue_->Next(&tag, &ok)) static_cast<Event*>(tag)->Complete(ok);
  });
}

void EventLoop::SweepLater() {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  ticker_.alarm.Set(queue(), absl::ToChronoTime(absl::Now() + kSweepInterval),
                    static_cast<Event*>(&ticker_));
}

void EventLoop::Sweep() {
  const absl::Time real = absl::Now();
  now_ += std::clamp(real - swept_at_, absl::ZeroDuration(), kLongestPause);
  swept_at_ = real;
  // A swept one may end, and remove itself, at once.
  for (auto it = swept_.begin(); it != swept_.end();) (*it++)->Sweep();
}

void EventLoop::SweepSoon() { new SweepOnce(*this); }

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
