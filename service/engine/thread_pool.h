// Threads for work that would hold up a lane or the network: planning, reading
// disks, compiling. Turns are shared fairly between identities. Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_THREAD_POOL_H_
#define GEMMD_SERVICE_ENGINE_THREAD_POOL_H_

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "service/engine/fair_queue.h"

namespace gemmd::engine {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool() { Stop(); }

  void Submit(const std::string& identity, absl::AnyInvocable<void()> work);
  // Runs everything that was submitted, then stops. What is submitted later is
  // dropped.
  void Stop();

 private:
  void Serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  FairQueue<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_THREAD_POOL_H_
