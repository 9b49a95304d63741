// A fixed number of threads that run tasks in the order in which they came, or
// became due. Thread-safe.
#ifndef GEMMD_JIT_BASE_TASK_QUEUE_H_
#define GEMMD_JIT_BASE_TASK_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace gemmd::jit {

class TaskQueue {
 public:
  explicit TaskQueue(int threads);
  // Waits for the tasks that run; those that wait are destroyed, not run.
  ~TaskQueue();

  void Schedule(std::function<void()> task);
  // Not before `delay` has passed; until then it takes no thread.
  void ScheduleAfter(absl::Duration delay, std::function<void()> task);

 private:
  TaskQueue() = default;  // Without threads.
  void Run();
  // The next task, which may be waited for; null at the end.
  std::function<void()> Next();

  std::mutex mutex_;
  std::condition_variable change_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  // By when they are due.
  std::multimap<absl::Time, std::function<void()>> later_
      ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // Written by the constructor only.
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_TASK_QUEUE_H_
