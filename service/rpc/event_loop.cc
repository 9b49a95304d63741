#include "service/rpc/event_loop.h"

#include "absl/time/clock.h"

namespace gemmd::rpc {

void Sleep::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  alarm_.Set(loop_.queue(), absl::ToChronoTime(absl::Now() + duration_),
             static_cast<Event*>(this));
}

void EventLoop::Start(std::function<void()> start) {
  thread_ = std::thread([this, start = std::move(start)] {
    start();
    void* tag;
    bool ok;
    while (queue_->Next(&tag, &ok)) static_cast<Event*>(tag)->Complete(ok);
  });
}

EventLoop::~EventLoop() {
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
