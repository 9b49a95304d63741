// Threads for work that would hold up a lane or the network: planning, reading
// disks, compiling. Turns are shared fairly between identities; work behind
// all of them waits until nothing else does, and leaves a thread free, of two
// or more. Work that waits for what an identity may hold up for long is for a
// pool that runs one of each at a time. Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_THREAD_POOL_H_
#define GEMMD_SERVICE_ENGINE_THREAD_POOL_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "service/engine/fair_queue.h"

namespace gemmd::engine {

class ThreadPool {
 public:
  enum class OfAnIdentity { kAsManyAsThereAre, kOneAtATime };
  explicit ThreadPool(int threads,
                      OfAnIdentity of_one = OfAnIdentity::kAsManyAsThereAre);
  ~ThreadPool() { Stop(); }

  void Submit(const std::string& identity, absl::AnyInvocable<void()> work);
  // Work that nobody waits for.
  void SubmitBehind(absl::AnyInvocable<void()> work);
  // Runs everything that was submitted, then stops. What is submitted later is
  // dropped, and so is what waits behind.
  void Stop();

 private:
  using Work = absl::AnyInvocable<void()>;
  struct Submitted {
    std::string identity;
    Work work;
  };

  void Serve();
  // What may run next; nothing when that has to wait.
  std::optional<Submitted> Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayRunBehind() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::mutex mutex_;
  std::condition_variable changed_;
  FairQueue<Submitted> queue_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> running_ ABSL_GUARDED_BY(mutex_);  // One at a time.
  std::deque<Work> behind_ ABSL_GUARDED_BY(mutex_);
  int running_behind_ ABSL_GUARDED_BY(mutex_) = 0;
  const int most_behind_;
  const OfAnIdentity of_one_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_THREAD_POOL_H_
