#include "jit/cache/flight_table.h"

#include <algorithm>

#include "jit/base/status.h"
#include "jit/base/steady_time.h"

namespace gemmd::jit {

absl::StatusOr<CacheResult> Flight::Wait(absl::Time deadline,
                                         bool unless_elsewhere) {
  // A duration is waited by a clock that nobody sets; it may not overflow.
  const absl::Duration left =
      std::min(deadline - SteadyNow(), absl::Hours(24 * 365));
  std::unique_lock lock(mutex_);
  if (!change_.wait_for(lock, absl::ToChronoNanoseconds(left), [&] {
        return landed_ || (unless_elsewhere && elsewhere_);
      })) {
    return absl::DeadlineExceededError(
        "the kernel was still being compiled; it will be there later");
  }
  if (landed_) return result_;
  return absl::AbortedError("another process is making the kernel");
}

void Flight::SetElsewhere(bool elsewhere) {
  std::lock_guard lock(mutex_);
  elsewhere_ = elsewhere;
  change_.notify_all();
}

std::pair<std::shared_ptr<Flight>, bool> FlightTable::Join(
    const std::string& key) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<Flight>& flight = flights_[key];
  const bool starts = flight == nullptr;
  if (starts) flight = std::make_shared<Flight>();
  return {flight, starts};
}

void FlightTable::Land(const std::string& key,
                       absl::StatusOr<CacheResult> result) {
  std::shared_ptr<Flight> flight;
  {
    std::lock_guard lock(mutex_);
    const auto found = flights_.find(key);
    CHECK(found != flights_.end());
    flight = std::move(found->second);
    flights_.erase(found);
  }
  std::lock_guard lock(flight->mutex_);
  flight->result_ = std::move(result);
  flight->landed_ = true;
  flight->change_.notify_all();
}

}  // namespace gemmd::jit
