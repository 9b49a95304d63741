#include "service/gpu/copy_threads.h"

#include <algorithm>
#include <system_error>

namespace gemmd::gpu {
namespace {

constexpr int kMostThreads = 4;

}  // namespace

int CopyThreads::CountFor(int cores) {
  return std::clamp(cores / 2 - 1, 0, kMostThreads);
}

CopyThreads::CopyThreads(int count) {
  try {
    while (static_cast<int>(threads_.size()) < count) {
      threads_.emplace_back(&CopyThreads::Serve, this);
    }
  } catch (const std::system_error&) {
    // Fewer help, or none does.
  }
}

CopyThreads::~CopyThreads() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  called_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CopyThreads::Share(Work work) {
  const std::unique_lock turn(turn_, std::try_to_lock);
  if (!turn || threads_.empty()) return work();
  {
    std::lock_guard lock(mutex_);
    work_ = &work;
    ++calls_;
  }
  called_.notify_all();
  work();
  std::unique_lock lock(mutex_);
  work_ = nullptr;  // Who wakes now is not waited for.
  while (running_ > 0) returned_.wait(lock);
}

void CopyThreads::Serve() {
  int64_t served = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    while (!stopping_ && (work_ == nullptr || served == calls_)) {
      called_.wait(lock);
    }
    if (stopping_) return;
    served = calls_;
    const Work work = *work_;
    ++running_;
    lock.unlock();
    work();
    lock.lock();
    if (--running_ == 0) returned_.notify_one();
  }
}

}  // namespace gemmd::gpu
