#include "service/engine/thread_pool.h"

#include <utility>

namespace gemmd::engine {

ThreadPool::ThreadPool(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back(&ThreadPool::Serve, this);
  }
}

void ThreadPool::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
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

void ThreadPool::Serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    auto work = queue_.Pop([](const auto&) { return false; });
    if (!work) return;
    lock.unlock();
    (*work)();
    work.reset();
    lock.lock();
  }
}

}  // namespace gemmd::engine
