#include "service/rpc/room_line.h"

#include <algorithm>
#include <utility>

#include "jit/base/steady_time.h"
#include "service/rpc/grpc_time.h"

namespace gemmd::rpc {
namespace {

// Between two looks of the first one. Nothing tells when room is given back:
// products, uploads and clients end in many places.
constexpr absl::Duration kInterval = absl::Milliseconds(10);
// And for each that stepped back at the last one, which takes a part of a
// microsecond: however many do, they cost a few hundredths of a core.
constexpr absl::Duration kIntervalOfOne = absl::Microseconds(5);

}  // namespace

// Under the lock, which Complete takes before the wait may be destroyed.
void RoomLine::WakeFirst() {
  if (places_.empty()) return;
  Wait* const wait = places_.front()->wait_;
  if (wait != nullptr) wait->Wake();
}

RoomLine::Place::Place(RoomLine& line, std::function<bool()> steps_back)
    : line_(line), steps_back_(std::move(steps_back)) {
  std::lock_guard lock(line_.mutex_);
  at_ = line_.places_.insert(line_.places_.end(), this);
}

RoomLine::Place::~Place() {
  std::lock_guard lock(line_.mutex_);
  const bool was_first = line_.places_.front() == this;
  line_.places_.erase(at_);
  if (was_first) line_.WakeFirst();
}

bool RoomLine::Place::is_first() const {
  std::lock_guard lock(line_.mutex_);
  return line_.places_.front() == this;
}

void RoomLine::Place::LetPass() {
  std::lock_guard lock(line_.mutex_);
  std::list<Place*>& places = line_.places_;
  if (places.front() != this) return;
  const auto all = static_cast<int64_t>(places.size());
  // Where all step back, all are where they were in the end.
  for (passed_ = 0; passed_ < all; ++passed_) {
    if (!places.front()->steps_back_()) break;
    places.splice(places.end(), places, places.begin());
  }
  if (places.front() != this) line_.WakeFirst();
}

// Who becomes first from now on is woken.
void RoomLine::Wait::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  std::lock_guard lock(place_.line_.mutex_);
  const bool is_first = place_.line_.places_.front() == &place_;
  const absl::Time soon =
      jit::SteadyNow() + kInterval + place_.passed_ * kIntervalOfOne;
  place_.wait_ = this;
  alarm_.Set(loop_.queue(), At(is_first ? std::min(until_, soon) : until_),
             static_cast<Event*>(this));
}

void RoomLine::Wait::Complete(bool) {
  {
    std::lock_guard lock(place_.line_.mutex_);
    place_.wait_ = nullptr;
  }
  handle_.resume();
}

}  // namespace gemmd::rpc
