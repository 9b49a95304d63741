#include "service/engine/thread_pool.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

namespace gemmd::engine {

ThreadPool::ThreadPool(int threads) : most_behind_(std::max(1, threads - 1)) {
  try {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back(&ThreadPool::Serve, this);
    }
  } catch (const std::system_error&) {
    Stop();  // Those that the system gave.
    throw;
  }
}

void ThreadPool::Stop() {
  std::deque<Work> dropped;  // Destroyed after the lock.
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(behind_);
  }
  dropped.clear();
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void ThreadPool::Submit(const std::string& identity,
                        absl::AnyInvocable<void()> work) {
  {
    std::lock_guard lock(mutex_);
    queue_.Push(identity, 1, std::move(work));
  }
  changed_.notify_one();
}

void ThreadPool::SubmitBehind(Work work) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    behind_.push_back(std::move(work));
  }
  changed_.notify_one();
}

bool ThreadPool::MayRunBehind() const {
  return queue_.empty() && !behind_.empty() && running_behind_ < most_behind_;
}

void ThreadPool::Serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] {
      return stopping_ || !queue_.empty() || MayRunBehind();
    });
    const bool behind = MayRunBehind();
    std::optional<Work> work;
    if (behind) {
      work = std::move(behind_.front());
      behind_.pop_front();
      ++running_behind_;
    } else {
      work = queue_.Pop([](const auto&) { return false; });
    }
    if (!work) return;
    lock.unlock();
    (*work)();
    work.reset();
    lock.lock();
    if (behind) --running_behind_;
  }
}

}  // namespace gemmd::engine
