// A completion queue and the one thread that polls it. Handlers are coroutines
// that live on one loop, so that what they own needs no locks.
#ifndef GEMMD_SERVICE_RPC_EVENT_LOOP_H_
#define GEMMD_SERVICE_RPC_EVENT_LOOP_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <condition_variable>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "jit/base/steady_time.h"

namespace gemmd::rpc {

// What a tag of the queue points to.
class Event {
 public:
  virtual void Complete(bool ok) = 0;

 protected:
  ~Event() = default;
};

// One operation on the queue, awaited: co_await gives its `ok`. `Start` gets
// the tag and begins the operation; nothing may touch it afterwards.
template <typename Start>
class [[nodiscard]] Operation final : public Event {
 public:
  explicit Operation(Start start) : start_(std::move(start)) {}
  Operation(const Operation&) = delete;

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    handle_ = handle;
    start_(static_cast<Event*>(this));
  }
  bool await_resume() const { return ok_; }

  void Complete(bool ok) override {
    ok_ = ok;
    handle_.resume();
  }

 private:
  Start start_;
  std::coroutine_handle<> handle_;
  bool ok_ = false;
};

class EventLoop;

// co_await: after `duration`, on the loop.
class [[nodiscard]] Sleep final : public Event {
 public:
  Sleep(EventLoop& loop, absl::Duration duration)
      : loop_(loop), duration_(duration) {}
  Sleep(const Sleep&) = delete;

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle);
  void await_resume() const {}

  void Complete(bool) override { handle_.resume(); }

 private:
  EventLoop& loop_;
  const absl::Duration duration_;
  grpc::Alarm alarm_;
  std::coroutine_handle<> handle_;
};

// What a loop looks after from time to time. Used on the loop alone.
class Sweepable {
 public:
  virtual void Sweep() = 0;

 protected:
  ~Sweepable() = default;
};

// Work that a loop takes up when it has dealt with what has happened, some of
// it at a time. Used on the loop alone.
class Backlog {
 public:
  virtual bool empty() const = 0;
  virtual void TakeSome() = 0;

 protected:
  ~Backlog() = default;
};

class EventLoop {
 public:
  // Has `what` run on the loop, soon; once for all who ask for it meanwhile.
  class Nudge final : public Event {
   public:
    Nudge(EventLoop& loop, std::function<void()> what)
        : loop_(loop), what_(std::move(what)) {}

    // From any thread, before the loop ends.
    void Set();
    void Complete(bool) override;

   private:
    EventLoop& loop_;
    const std::function<void()> what_;
    bool set_ = false;  // And not begun. Guarded by the loop's mutex.
    grpc::Alarm alarm_;
  };

  // Spins so long where an answer is expected, before it sleeps.
  EventLoop(std::unique_ptr<grpc::ServerCompletionQueue> queue,
            absl::Duration spin)
      : queue_(std::move(queue)), spin_(spin) {}
  // After the server and all calls of this loop have ended.
  ~EventLoop();

  // Polls on a new thread, which runs `start` first, and `caught_up` soon after
  // each sweep, when all has been dealt with that had happened before it.
  void Start(std::function<void()> start,
             std::function<void()> caught_up = nullptr);

  grpc::ServerCompletionQueue* queue() { return queue_.get(); }

  // Before the start. `backlog` outlives the loop's thread.
  void Attend(Backlog& backlog) { backlog_ = &backlog; }

  // On the loop. `what` gives its place back before it ends.
  using Place = std::list<Sweepable*>::iterator;
  Place Add(Sweepable& what) { return swept_.insert(swept_.end(), &what); }
  void Remove(Place place) { swept_.erase(place); }
  // On the loop: looks after all. Done several times a second.
  void Sweep();
  // From any thread, before the loop ends: sweeps now.
  void SweepSoon() { soon_.Set(); }

  // On the loop, which nothing happens on but sweeps and nudges: from now on it
  // waits for these without a part in gRPC's polling; and with it again.
  void Park() { parked_ = true; }
  void Unpark() { parked_ = false; }

  // On the loop: an answer of the engine is on its way; and has come.
  void Expect() { ++expected_; }
  void HasCome() { --expected_; }

  // A clock that goes on with each sweep: exact enough for limits of seconds,
  // and free of charge. It goes slower while the process is stopped or does not
  // keep up, which is no fault of clients. On the loop.
  absl::Time now() const { return now_; }

 private:
  // An alarm, and not a time-out of the waiting for events: setting that each
  // time costs small requests a fifth of their time.
  struct Ticker final : Event {
    explicit Ticker(EventLoop& loop) : loop(loop) {}
    void Complete(bool) override { loop.Tick(); }

    EventLoop& loop;
    grpc::Alarm alarm;
  };

  // The next event; false when there will be none.
  bool Next(void** tag, bool* ok);
  // One that there is already.
  grpc::CompletionQueue::NextStatus Poll(void** tag, bool* ok);
  void Tick();
  void TickAfter(absl::Duration time);
  bool WaitParked(void** tag, bool* ok);

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const absl::Duration spin_;
  int64_t expected_ = 0;
  bool parked_ = false;
  Backlog* backlog_ = nullptr;  // May be null.
  absl::Time backlog_taken_;    // When some of it was taken up last.
  std::mutex mutex_;
  std::condition_variable nudged_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t nudges_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t seen_nudges_ ABSL_GUARDED_BY(mutex_) = 0;  // While parked.
  Nudge soon_{*this, [this] { Sweep(); }};
  Ticker ticker_{*this};
  bool has_swept_ = false;  // By the last tick.
  std::function<void()> caught_up_;
  std::list<Sweepable*> swept_;
  absl::Time now_ = jit::SteadyNow();
  absl::Time swept_at_ = now_;
  std::thread thread_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_EVENT_LOOP_H_
