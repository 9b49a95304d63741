// A request's work on a lane of a device.
#ifndef GEMMD_SERVICE_ENGINE_LANE_TASK_H_
#define GEMMD_SERVICE_ENGINE_LANE_TASK_H_

#include "service/device/device.h"
#include "service/engine/waiter.h"

namespace gemmd::engine {

class LaneTask : public Waiter {
 public:
  using Waiter::Waiter;

  // Does the work and answers. Called by a lane that began the task. True when
  // there is more to do: then it waits for another turn.
  virtual bool Run(device::Lane& lane) = 0;
  // Whether nothing else should run meanwhile: then the executor begins no
  // other task, and it waits a moment for those that run.
  virtual bool alone() const { return false; }
  // Answers with `why` while Run has not returned, and may never: the device
  // hangs. Run's own answer is dropped then.
  virtual void Abandon(const absl::Status& why) = 0;

 private:
  friend class Executor;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_LANE_TASK_H_
