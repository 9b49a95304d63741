// Threads for work that would hold up a lane: planning, compiling, loading.
// Thread-safe. What is submitted is bounded by the executors' admission.
#ifndef GEMMD_SERVICE_ENGINE_THREAD_POOL_H_
#define GEMMD_SERVICE_ENGINE_THREAD_POOL_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"

namespace gemmd::engine {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  // Runs everything that was submitted, then stops.
  ~ThreadPool();

  void Submit(absl::AnyInvocable<void()> work);

 private:
  void Serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_THREAD_POOL_H_
