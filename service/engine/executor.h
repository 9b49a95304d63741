// The queue of one device: jobs wait in order and run on lanes, one thread per
// lane. Thread-safe.
//
// A job is admitted before anything is done for it, so that a full queue
// refuses at once; between admission and Run the kernel may be prepared.
#ifndef GEMMD_SERVICE_ENGINE_EXECUTOR_H_
#define GEMMD_SERVICE_ENGINE_EXECUTOR_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "service/device/device.h"
#include "service/engine/request_context.h"

namespace gemmd::engine {

class Executor {
 public:
  struct Options {
    int lanes = 2;
    int max_queue = 256;  // Jobs admitted and not yet started.
  };

  // Called once on a lane's thread; or, with the reason, when the job is not
  // run: its request was given up while it waited, or the executor stops.
  using Job = absl::AnyInvocable<void(absl::StatusOr<device::Lane*>)>;

  // A place in the queue. Destroying it gives the place back.
  class Ticket {
   public:
    explicit Ticket(Executor* executor) : executor_(executor) {}
    Ticket(Ticket&& other) noexcept
        : executor_(std::exchange(other.executor_, nullptr)) {}
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket();

   private:
    Executor* executor_;
  };

  // `device` outlives the executor.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      device::Device& device, Options options);
  // Finishes running jobs; waiting ones get UNAVAILABLE.
  ~Executor();

  // RESOURCE_EXHAUSTED with the limit when the queue is full.
  absl::StatusOr<Ticket> Admit();
  void Run(Ticket ticket, RequestContext context, Job job);

  int64_t waiting() const;
  // Jobs admitted and not finished: the measure of "least loaded".
  int64_t load() const;

 private:
  struct Entry {
    Ticket ticket;
    RequestContext context;
    Job job;
  };

  Executor(std::string device_name, int max_queue)
      : device_name_(std::move(device_name)), max_queue_(max_queue) {}

  void Serve(device::Lane& lane);
  void GiveBack();

  const std::string device_name_;
  const int64_t max_queue_;

  // std::mutex, not absl::Mutex: the thread sanitizer understands it also in
  // a build against an uninstrumented abseil.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> queue_ ABSL_GUARDED_BY(mutex_);
  int64_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::unique_ptr<device::Lane>> lanes_;
  std::vector<std::thread> threads_;  // One per lane.
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_EXECUTOR_H_
