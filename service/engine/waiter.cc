#include "service/engine/waiter.h"

#include "jit/base/status.h"

namespace gemmd::engine {

absl::Status Waiter::Check(absl::string_view step) const {
  RETURN_IF_ERROR(context_.Check(step));
  RETURN_IF_ERROR(health_.Check());
  for (const DeviceHealth* other : others_) RETURN_IF_ERROR(other->Check());
  return absl::OkStatus();
}

absl::Status Waiter::WaitIn(Places& places, Places::Entry entry) {
  std::shared_ptr<Waiter> displaced;
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kWaiting) {
      return absl::CancelledError("the request was given up");
    }
    ASSIGN_OR_RETURN(place_, places.Take(shared_from_this(), entry, displaced));
  }
  if (displaced != nullptr) displaced->GiveUp(places.Displaced());
  return absl::OkStatus();
}

bool Waiter::Begin() { return End(State::kBegun); }

void Waiter::GiveUp(const absl::Status& why) {
  if (End(State::kGivenUp)) Refuse(why);
}

void Waiter::BeginAgain() {
  std::lock_guard lock(mutex_);
  state_ = State::kWaiting;
}

bool Waiter::End(State state) {
  Places::Place left;
  std::lock_guard lock(mutex_);
  if (state_ != State::kWaiting) return false;
  state_ = state;
  left = std::move(place_);
  return true;
}

}  // namespace gemmd::engine
