// Compiles in worker processes, one per compile at a time. A worker that
// crashed, hung or used up its memory is replaced; idle ones are kept for the
// next compile, for a while.
#ifndef GEMMD_JIT_COMPILE_WORKER_POOL_H_
#define GEMMD_JIT_COMPILE_WORKER_POOL_H_

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "jit/base/file.h"
#include "jit/compile/worker_process.h"

namespace gemmd::jit {

// Thread-safe.
class WorkerPool {
 public:
  struct Options {
    std::string program;  // Of a worker; see WorkerProcess::Start.
    std::vector<std::string> arguments;
    std::vector<int> files;
    absl::Duration idle_timeout = absl::Minutes(1);
    // A worker is replaced after so many compiles, lest leaks add up.
    int compiles_per_worker = 256;
    // When a first worker is started, so that a compile finds it ready; one
    // that comes earlier starts its own.
    absl::Duration first_after = absl::ZeroDuration();
  };

  explicit WorkerPool(Options options);
  ~WorkerPool();

  absl::StatusOr<CompileOutput> Compile(const CompileRequest& request,
                                        absl::Time deadline);

  // Kills the workers that compile; their compiles, and all later ones, end
  // with UNAVAILABLE.
  void GiveUp();

 private:
  struct Worker {
    std::unique_ptr<WorkerProcess> process;
    int compiles = 0;
    absl::Time idle_since;
  };

  // A worker's socket while it compiles, for GiveUp.
  class Busy;

  std::optional<Worker> TakeIdle();
  absl::StatusOr<CompileOutput> Run(Worker& worker,
                                    const CompileRequest& request,
                                    absl::Time deadline);
  // When it does not start, the first compile will say so.
  void StartFirst();
  // After a compile. Ends a worker that is of no more use.
  void GiveBack(Worker worker);
  // Starts the first worker in time, and from then on ends and reaps those that
  // have been idle for long, were killed or stopped.
  void Keep();
  void EndIdleWorkers();

  const Options options_;
  std::mutex mutex_;
  std::condition_variable change_;                  // Of stopping_.
  std::list<Worker> idle_ ABSL_GUARDED_BY(mutex_);  // Latest used last.
  std::list<UniqueFd> busy_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool gave_up_ ABSL_GUARDED_BY(mutex_) = false;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;  // A worker, once.
  std::thread keeper_;                            // Runs Keep.
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_WORKER_POOL_H_
