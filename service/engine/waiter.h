// A request that waits inside the engine: for a kernel, for tensors, for its
// turn. The wait ends in one of two ways, whichever comes first: somebody
// begins what was waited for, or the request is given up. Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_WAITER_H_
#define GEMMD_SERVICE_ENGINE_WAITER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/engine/device_health.h"
#include "service/engine/places.h"
#include "service/engine/request_context.h"

namespace gemmd::engine {

class Waiter : public std::enable_shared_from_this<Waiter> {
 public:
  // `health`, of the device that the request is for, outlives the waiter.
  Waiter(RequestContext context, const DeviceHealth& health)
      : context_(std::move(context)), health_(health) {}
  virtual ~Waiter() = default;
  Waiter(const Waiter&) = delete;

  const RequestContext& context() const { return context_; }
  // Predicted cycles of the device: what the request is charged with. Set
  // before the waiter takes a place.
  int64_t cost() const { return cost_; }
  // It cannot do without that device either, which outlives it. Called before
  // it waits for anything.
  void AlsoNeeds(const DeviceHealth& health) { others_.push_back(&health); }
  // What its identity is charged with: less, the more weight that has.
  int64_t charge() const { return cost_ / context_.weight; }
  void set_cost(int64_t cost) { cost_ = cost; }

  // Why there is no use in going on: nobody waits for the answer any more, or a
  // device has failed. OK otherwise; `step` is what has not been begun.
  absl::Status Check(absl::string_view step) const;

  // Waits in `places` from now on, and no longer where it waited before. The
  // error is that of Places::Take; CANCELLED when it has been given up.
  absl::Status WaitIn(Places& places, Places::Entry entry);

  // True for one caller, who then does what was waited for; false when the
  // request has been given up. The place is free.
  bool Begin();
  // Ends the wait with `why`, unless it is over. The place is free.
  void GiveUp(const absl::Status& why);
  bool given_up() const { return state_ == State::kGivenUp; }

 protected:
  // Answers with `why` and lets go of what is held. Called at most once.
  virtual void Refuse(const absl::Status& why) = 0;
  // By the one who began: there is more to wait for.
  void BeginAgain();

 private:
  enum class State { kWaiting, kBegun, kGivenUp };

  bool End(State state);

  const RequestContext context_;
  const DeviceHealth& health_;
  std::vector<const DeviceHealth*> others_;
  int64_t cost_ = 0;
  // Taken before the mutex of any Places.
  std::mutex mutex_;
  std::atomic<State> state_ = State::kWaiting;  // Written under mutex_.
  Places::Place place_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_WAITER_H_
