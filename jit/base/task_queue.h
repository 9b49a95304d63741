// A fixed number of threads that run tasks in the order in which they came.
// Thread-safe.
#ifndef GEMMD_JIT_BASE_TASK_QUEUE_H_
#define GEMMD_JIT_BASE_TASK_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

namespace gemmd::jit {

class TaskQueue {
 public:
  explicit TaskQueue(int threads);
  // Waits for the tasks that run; those that wait are destroyed, not run.
  ~TaskQueue();

  void Schedule(std::function<void()> task);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable change_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // Written by the constructor only.
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_TASK_QUEUE_H_
