#include "jit/compile/worker_pool.h"

#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/base/thread_name.h"

namespace gemmd::jit {
namespace {

// How soon a worker that was killed while it was idle is waited for.
constexpr absl::Duration kReapInterval = absl::Seconds(1);

}  // namespace

WorkerPool::WorkerPool(Options options) : options_(std::move(options)) {
  if (options_.first_after == absl::ZeroDuration()) StartFirst();
  keeper_ = std::thread([this] { Keep(); });
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  change_.notify_all();
  keeper_.join();
}

absl::StatusOr<CompileOutput> WorkerPool::Compile(const CompileRequest& request,
                                                  absl::Time deadline) {
  if (std::optional<Worker> worker = TakeIdle()) {
    absl::StatusOr<CompileOutput> output = Run(*worker, request, deadline);
    // It may have been killed while it was idle, which is not the fault of
    // this request: a fresh worker decides.
    const bool died = !worker->process->alive() && SteadyNow() < deadline;
    GiveBack(*std::move(worker));
    if (!died) return output;
  }
  {
    std::lock_guard lock(mutex_);
    started_ = true;
  }
  Worker fresh;
  ASSIGN_OR_RETURN(fresh.process,
                   WorkerProcess::Start(options_.program, options_.arguments,
                                        options_.files));
  absl::StatusOr<CompileOutput> output = Run(fresh, request, deadline);
  GiveBack(std::move(fresh));
  return output;
}

class WorkerPool::Busy {
 public:
  Busy(WorkerPool& pool, UniqueFd socket) : pool_(pool) {
    std::lock_guard lock(pool_.mutex_);
    gave_up_ = pool_.gave_up_;
    place_ = pool_.busy_.insert(pool_.busy_.end(), std::move(socket));
  }
  ~Busy() {
    std::lock_guard lock(pool_.mutex_);
    pool_.busy_.erase(place_);
  }
  Busy(const Busy&) = delete;

  bool gave_up() const { return gave_up_; }

 private:
  WorkerPool& pool_;
  bool gave_up_;
  std::list<UniqueFd>::iterator place_;
};

absl::StatusOr<CompileOutput> WorkerPool::Run(Worker& worker,
                                              const CompileRequest& request,
                                              absl::Time deadline) {
  const Busy busy(*this, worker.process->CopySocket());
  if (busy.gave_up()) {
    return absl::UnavailableError("compiles have been given up");
  }
  return worker.process->Compile(request, deadline);
}

void WorkerPool::GiveUp() {
  std::lock_guard lock(mutex_);
  gave_up_ = true;
  // To who waits for the answer the worker seems to have ended: it is killed.
  for (const UniqueFd& socket : busy_) shutdown(socket.get(), SHUT_RDWR);
}

std::optional<WorkerPool::Worker> WorkerPool::TakeIdle() {
  std::list<Worker> stopped;  // Destroyed, and so killed, without the lock.
  std::lock_guard lock(mutex_);
  while (!idle_.empty()) {
    if (!idle_.back().process->IsStopped()) {
      Worker worker = std::move(idle_.back());
      idle_.pop_back();
      return worker;
    }
    stopped.splice(stopped.end(), idle_, std::prev(idle_.end()));
  }
  return {};
}

void WorkerPool::StartFirst() {
  absl::StatusOr<std::unique_ptr<WorkerProcess>> first = WorkerProcess::Start(
      options_.program, options_.arguments, options_.files);
  if (first.ok()) GiveBack({.process = *std::move(first), .compiles = -1});
}

void WorkerPool::GiveBack(Worker worker) {
  ++worker.compiles;
  if (!worker.process->alive() ||
      worker.compiles >= options_.compiles_per_worker) {
    return;
  }
  worker.idle_since = SteadyNow();
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(worker));
}

void WorkerPool::Keep() {
  NameThread("compilers");
  if (options_.first_after != absl::ZeroDuration()) {
    std::unique_lock lock(mutex_);
    const bool start =
        !change_.wait_for(lock, absl::ToChronoNanoseconds(options_.first_after),
                          [this] { return stopping_ || started_; });
    lock.unlock();
    if (start) StartFirst();
  }
  EndIdleWorkers();
}

void WorkerPool::EndIdleWorkers() {
  std::list<Worker> ended;  // Destroyed, and so killed, without the lock.
  while (true) {
    ended.clear();
    std::unique_lock lock(mutex_);
    // One that was killed stays a zombie until it is waited for; one that was
    // stopped would keep a compile until its deadline.
    for (auto worker = idle_.begin(); worker != idle_.end();) {
      const auto next = std::next(worker);
      if (worker->process->HasEnded() || worker->process->IsStopped()) {
        ended.splice(ended.end(), idle_, worker);
      }
      worker = next;
    }
    // The latest stays: it makes the next compile quick.
    while (idle_.size() > 1 &&
           SteadyNow() - idle_.front().idle_since >= options_.idle_timeout) {
      ended.splice(ended.end(), idle_, idle_.begin());
    }
    if (!ended.empty()) continue;
    const absl::Duration pause = std::min(options_.idle_timeout, kReapInterval);
    if (change_.wait_for(lock, absl::ToChronoNanoseconds(pause),
                         [this] { return stopping_; })) {
      return;
    }
  }
}

}  // namespace gemmd::jit
