// Threads that lend a hand with copies between buffers of the host, which one
// core makes at a fraction of the memory's speed. Thread-safe.
#ifndef GEMMD_SERVICE_GPU_COPY_THREADS_H_
#define GEMMD_SERVICE_GPU_COPY_THREADS_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"

namespace gemmd::gpu {

class CopyThreads {
 public:
  using Work = absl::FunctionRef<void()>;

  // For a machine of so many cores: with the caller they take half of these at
  // most. More than four are not worth waking for a moment's copy.
  static int CountFor(int cores);

  // As many as the system gives of `count`.
  explicit CopyThreads(int count);
  ~CopyThreads();
  CopyThreads(const CopyThreads&) = delete;

  // Runs `work` here, and once on every thread that wakes before it has
  // returned here: it takes part after part of what there is to do, until
  // nothing is left. Returns when nobody runs it any more. Who comes while
  // others share works alone, so that nobody waits for his turn.
  void Share(Work work);

 private:
  void Serve();

  std::mutex turn_;  // Of who shares; before mutex_.
  std::mutex mutex_;
  std::condition_variable called_;
  std::condition_variable returned_;
  const Work* work_ ABSL_GUARDED_BY(mutex_) = nullptr;  // That is shared.
  int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // Threads that run it.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_COPY_THREADS_H_
