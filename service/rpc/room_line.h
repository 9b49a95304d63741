// Those who wait for room on a device, oldest first: the first one is waited
// for, so that who needs much is not overtaken until he starves. Only the first
// one looks for room from time to time, the others sleep until they are first:
// many who wait cost little more than one. Thread-safe.
#ifndef GEMMD_SERVICE_RPC_ROOM_LINE_H_
#define GEMMD_SERVICE_RPC_ROOM_LINE_H_

#include <grpcpp/alarm.h>

#include <coroutine>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "service/rpc/event_loop.h"

namespace gemmd::rpc {

class RoomLine {
 public:
  class Place;
  class Wait;

 private:
  void WakeFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::mutex mutex_;
  std::list<Place*> places_ ABSL_GUARDED_BY(mutex_);
};

// A place in the line, from its end on; left when it is destroyed.
class RoomLine::Place {
 public:
  // `steps_back` tells whether it waits for what the ends of others' calls will
  // not bring, so that nobody is to wait for it. It is called on any thread,
  // and takes no place.
  Place(RoomLine& line, std::function<bool()> steps_back);
  ~Place();
  Place(const Place&) = delete;

  bool is_first() const;
  // Of the first one: those at the front whose `steps_back` is true, it too, go
  // to the end, so that who comes behind them is first.
  void LetPass();

 private:
  friend class RoomLine;

  RoomLine& line_;
  const std::function<bool()> steps_back_;
  int64_t passed_ = 0;  // Steps back at its last look.
  // Guarded by the line.
  std::list<Place*>::iterator at_;
  Wait* wait_ = nullptr;
};

// co_await: until it is time to look for room, as it is for the first one soon
// and for others once they are first; or `until`.
class [[nodiscard]] RoomLine::Wait final : public Event {
 public:
  Wait(Place& place, EventLoop& loop, absl::Time until)
      : place_(place), loop_(loop), until_(until) {}
  Wait(const Wait&) = delete;

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle);
  void await_resume() const {}

  // Ends the wait at once, once it has begun.
  void Wake() { alarm_.Cancel(); }

  void Complete(bool) override;

 private:
  Place& place_;
  EventLoop& loop_;
  const absl::Time until_;
  // Fires at its time, or at once when it is cancelled: one event on the loop.
  grpc::Alarm alarm_;
  std::coroutine_handle<> handle_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_ROOM_LINE_H_
