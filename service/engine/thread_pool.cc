#include "service/engine/thread_pool.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "jit/base/thread_name.h"

namespace gemmd::engine {

ThreadPool::ThreadPool(int threads, OfAnIdentity of_one)
    : most_behind_(std::max(1, threads - 1)), of_one_(of_one) {
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
    queue_.Push(identity, 1, {identity, std::move(work)});
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

std::optional<ThreadPool::Submitted> ThreadPool::Next() {
  const auto never = [](const Submitted&) { return false; };
  if (of_one_ == OfAnIdentity::kAsManyAsThereAre) return queue_.Pop(never);
  auto next = queue_.Pop(never, [this](const Submitted& one) {
    return !running_.contains(one.identity);
  });
  if (next) running_.insert(next->identity);
  return next;
}

void ThreadPool::Serve() {
  jit::NameThread("pool");
  std::unique_lock lock(mutex_);
  while (true) {
    const bool behind = MayRunBehind();
    std::optional<Submitted> next;
    if (behind) {
      next = {"", std::move(behind_.front())};
      behind_.pop_front();
      ++running_behind_;
    } else {
      next = Next();
    }
    if (!next) {
      // Work of an identity that runs is found by the thread that runs it.
      if (stopping_) return;
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    next->work();
    next->work = nullptr;
    lock.lock();
    if (behind) {
      --running_behind_;
    } else if (running_.erase(next->identity) > 0) {
      changed_.notify_one();
    }
  }
}

}  // namespace gemmd::engine
