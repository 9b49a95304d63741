// Tunes problems on the devices: those that it is asked to, at once, and in the
// background those that are hot, whose predicted time adds up to most. What it
// finds out is in the table of tuning records. Thread-safe.
//
// It works in slices of a millisecond or two, in turn with products and alone on
// the device, unless one of those takes long. In the background it rests so long between them that they
// take at most their share of the time. Compiles wait until no request waits
// for one.
#ifndef GEMMD_SERVICE_ENGINE_TUNER_H_
#define GEMMD_SERVICE_ENGINE_TUNER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "jit/cache/tuning_table.h"
#include "service/engine/once.h"
#include "service/engine/periodic.h"
#include "service/engine/preparer.h"
#include "service/engine/request_context.h"
#include "service/engine/served_device.h"
#include "service/engine/tensor_store.h"
#include "service/engine/thread_pool.h"
#include "service/engine/tuning_job.h"

namespace gemmd::engine {

class Tuner {
 public:
  struct Options {
    // Most of a device's time that tuning in the background takes, of 100; 0:
    // none of it, the default: while a shape is tuned, what waits beside it
    // takes up to two milliseconds longer.
    int share_percent = 0;
    // Of one shape before it is hot.
    int64_t least_finds = 32;
    // Between two looks at what is hot.
    absl::Duration interval = absl::Milliseconds(200);
    // Is told why a hot problem could not be tuned; by any thread. May be null.
    std::function<void(const jit::Problem&, const absl::Status&)> gave_up;
  };

  // All outlive the tuner; `table` may be null: then nothing is tuned.
  Tuner(Options options,
        const std::vector<std::unique_ptr<ServedDevice>>& devices,
        TensorStore& tensors, Preparer& preparer, jit::TuningTable* table);
  ~Tuner() { Stop(); }

  // Running jobs end soon, with UNAVAILABLE, as do waiting ones.
  void Stop();

  // Errors are those of TuningJob::Run; FAILED_PRECONDITION without a table.
  void Tune(TuningOrder order, int device, RequestContext context,
            Done<TuningOutcome> done);

  struct Progress {
    int64_t records = 0;
    int64_t tuned = 0;  // Problems, by device.
    int64_t failed = 0;
    absl::Duration device_time;  // In the background.
  };
  Progress progress() const;

 private:
  // What belongs to one device.
  struct Bench {
    std::mutex timing;  // See TuningPlace.
    std::atomic<int> background_jobs = 0;
    int looks_to_skip = 0;  // Of LookForHot alone.
    std::mutex mutex;
    absl::Time rests_until ABSL_GUARDED_BY(mutex) = absl::InfinitePast();
    absl::Duration device_time ABSL_GUARDED_BY(mutex);
  };

  absl::StatusOr<TuningOutcome> Run(const TuningOrder& order, int device,
                                    const RequestContext& context,
                                    bool background);
  absl::Status OnLane(int device, const RequestContext& context,
                      bool background, absl::AnyInvocable<absl::Status()> work);
  // Waits until a slice may begin.
  absl::Status AwaitTurn(int device, const RequestContext& context,
                         bool background);
  void LookForHot();
  // Ends when the tuner stops.
  void Sleep(absl::Duration time) const;

  const Options options_;
  const std::vector<std::unique_ptr<ServedDevice>>& devices_;
  TensorStore& tensors_;
  Preparer& preparer_;
  jit::TuningTable* const table_;
  std::vector<std::unique_ptr<Bench>> benches_;  // By device.
  // Of all jobs: set when the tuner stops.
  const std::shared_ptr<std::atomic<bool>> stopping_ =
      std::make_shared<std::atomic<bool>>(false);
  std::atomic<int64_t> tuned_ = 0;
  std::atomic<int64_t> failed_ = 0;
  mutable std::mutex mutex_;
  mutable std::condition_variable stopped_;
  // Last: they use the rest.
  ThreadPool jobs_;
  std::unique_ptr<Periodic> look_;  // Null without a share.
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_TUNER_H_
