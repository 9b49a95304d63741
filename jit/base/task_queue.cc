#include "jit/base/task_queue.h"

#include <utility>

#include "jit/base/steady_time.h"
#include "jit/base/thread_name.h"

namespace gemmd::jit {

// Where the system gives fewer threads, those that it gave are ended by the
// destructor: what the delegate has made is whole.
TaskQueue::TaskQueue(int threads) : TaskQueue() {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

TaskQueue::~TaskQueue() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  change_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TaskQueue::Schedule(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  change_.notify_one();
}

void TaskQueue::ScheduleAfter(absl::Duration delay,
                              std::function<void()> task) {
  std::lock_guard lock(mutex_);
  later_.emplace(SteadyNow() + delay, std::move(task));
  change_.notify_all();  // Whoever waits may have to wake earlier.
}

std::function<void()> TaskQueue::Next() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const absl::Time now = SteadyNow();
    while (!later_.empty() && later_.begin()->first <= now) {
      tasks_.push_back(std::move(later_.begin()->second));
      later_.erase(later_.begin());
    }
    if (!tasks_.empty()) {
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      return task;
    }
    if (later_.empty()) {
      change_.wait(lock);
    } else {
      change_.wait_for(lock,
                       absl::ToChronoNanoseconds(later_.begin()->first - now));
    }
  }
  return nullptr;
}

void TaskQueue::Run() {
  NameThread("tasks");
  while (const std::function<void()> task = Next()) task();
}

}  // namespace gemmd::jit
