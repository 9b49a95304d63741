// The queue of one device: tasks wait for their turn and run on lanes, one
// thread per lane. Turns are shared fairly between identities by predicted
// cost, places by number. Short tasks need not wait until a long one ends: one
// more lane is theirs alone. A task may ask to run alone, and mostly does.
// Thread-safe.
//
// A task is admitted before anything is done for it, so that a full queue
// refuses at once; between admission and Enqueue it may wait for tensors.
#ifndef GEMMD_SERVICE_ENGINE_EXECUTOR_H_
#define GEMMD_SERVICE_ENGINE_EXECUTOR_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/device/device.h"
#include "service/engine/bell.h"
#include "service/engine/cost.h"
#include "service/engine/device_health.h"
#include "service/engine/fair_queue.h"
#include "service/engine/lane_task.h"
#include "service/engine/places.h"

namespace gemmd::engine {

class Executor {
 public:
  // What one call may take by default. A GPU runs one large product at a time.
  // The host takes its time for what a GPU does in a moment.
  static constexpr absl::Duration kMostOfAGpu = absl::Seconds(2);
  static constexpr absl::Duration kMostOfTheHost = absl::Minutes(1);

  struct Options {
    int lanes = 2;
    // What is predicted to take at most so many cycles is short; negative:
    // there is no lane for it.
    int64_t short_cycles = -1;
    int max_queue = 256;  // Tasks admitted and not yet begun.
    // A device that works longer than this on one task has failed, unless it
    // may take any time (device::Description::may_hang).
    absl::Duration hang_limit = absl::Minutes(1);
    // What one call may be predicted to take; 0: see kMostOfAGpu.
    absl::Duration max_work = absl::ZeroDuration();
    // A lane without work spins so long before it sleeps.
    absl::Duration spin = absl::ZeroDuration();
  };

  // `device` and `health` outlive the executor.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      device::Device& device, DeviceHealth& health, Options options);
  ~Executor() { Stop(); }

  // Finishes running tasks; waiting ones get UNAVAILABLE, as do later ones.
  void Stop();

  // RESOURCE_EXHAUSTED for what would keep the device too long from others.
  absl::Status Check(const Work& work);
  // How often that was said.
  int64_t refused_work() const { return refused_work_; }

  // Gives `task` a place in the queue. RESOURCE_EXHAUSTED when it is full.
  absl::Status Admit(Waiter& task,
                     Places::Entry entry = Places::Entry::kIfFree);
  // Both at once; gives `task` up where it gets no place.
  void Submit(std::shared_ptr<LaneTask> task);
  // `task` has a place. Runs it in its turn, unless it is given up.
  void Enqueue(std::shared_ptr<LaneTask> task);

  // To be called often: gives up what nobody waits for any more, and all that
  // a failed device has. Notices when the device hangs.
  void Sweep();

  int64_t waiting() const { return places_.taken(); }
  int64_t waiting_of(const std::string& identity) const {
    return places_.taken_by(identity);
  }
  const Places& places() const { return places_; }
  // In which at least one lane worked.
  absl::Duration busy() const;
  // In which nothing might begin, for the sake of a task that is to run alone.
  absl::Duration reserved() const;
  // Tasks that run, and those begun since the start.
  struct Activity {
    int running = 0;
    int64_t begun = 0;
    friend bool operator==(const Activity&, const Activity&) = default;
  };
  Activity activity() const;
  // Predicted cycles of what waits and runs: the measure of "least loaded".
  int64_t load() const;

 private:
  struct Running {
    std::shared_ptr<LaneTask> task;  // Null: the lane is idle.
    std::chrono::steady_clock::time_point since;
  };

  Executor(device::Device& device, DeviceHealth& health, Options options);

  void Serve(int lane);
  // The next task for a lane, one of short ones or any; null: there will be
  // none. Waits with `lock`, which is of mutex_.
  std::shared_ptr<LaneTask> Next(std::unique_lock<std::mutex>& lock,
                                 bool of_short);
  // Nothing begins from when Next has given a task that is to run alone until
  // EndAlone. What runs too long is not waited for: then it is not alone, and
  // this returns false.
  bool BeginAlone(std::unique_lock<std::mutex>& lock);
  void EndAlone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsShort(const LaneTask& task) const {
    return task.cost() <= short_cycles_;
  }
  void RunTask(int lane, LaneTask& task);

  const device::Description& device_;
  DeviceHealth& health_;
  const absl::Duration hang_limit_;
  const absl::Duration most_work_;
  const int lane_count_;  // But for that of short tasks, which comes last.
  const int64_t short_cycles_;
  Places places_;
  std::atomic<int64_t> refused_work_ = 0;

  // std::mutex, not absl::Mutex: the thread sanitizer understands it also in
  // a build against an uninstrumented abseil.
  mutable std::mutex mutex_;
  Bell changed_;
  Bell short_changed_;  // Wakes the lane of short tasks.
  bool short_lane_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool alone_ ABSL_GUARDED_BY(mutex_) = false;  // A task is, or is to be.
  // Up to the last time when no task was, and since when one is.
  std::chrono::steady_clock::duration reserved_ ABSL_GUARDED_BY(mutex_){};
  std::chrono::steady_clock::time_point alone_since_ ABSL_GUARDED_BY(mutex_);
  std::condition_variable all_idle_;
  // Some may have been given up: they are dropped by the next sweep.
  FairQueue<std::shared_ptr<LaneTask>> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<Running> running_ ABSL_GUARDED_BY(mutex_);  // One per lane.
  int64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_count_ ABSL_GUARDED_BY(mutex_) = 0;
  // Up to the last time when all lanes were idle, and since when they are not.
  std::chrono::steady_clock::duration busy_ ABSL_GUARDED_BY(mutex_){};
  std::chrono::steady_clock::time_point busy_since_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::unique_ptr<device::Lane>> lanes_;
  std::vector<std::thread> threads_;  // One per lane.
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_EXECUTOR_H_
