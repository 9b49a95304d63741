#include "jit/cache/write_behind.h"

#include <utility>

#include "jit/base/steady_time.h"

namespace gemmd::jit {
namespace {

int64_t BytesOf(const CompiledKernel& kernel) {
  return static_cast<int64_t>(kernel.source.size() + kernel.log.size() +
                              kernel.cubin.size());
}

}  // namespace

WriteBehind::WriteBehind(Options options)
    : options_(std::move(options)), thread_([this] { Run(); }) {}

WriteBehind::~WriteBehind() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  change_.notify_all();
  thread_.join();
}

void WriteBehind::Write(KernelPointer kernel,
                        std::shared_ptr<const void> release) {
  bool refused = false;
  {
    std::lock_guard lock(mutex_);
    const int64_t bytes = BytesOf(*kernel);
    refused = bytes_ + bytes > options_.limit_bytes;
    if (!refused) {
      bytes_ += bytes;
      by_key_[kernel->key] = kernel;
      queue_.push_back({std::move(kernel), std::move(release)});
    }
  }
  change_.notify_all();
  if (refused) {
    options_.failed(
        absl::ResourceExhaustedError("too many kernels wait to be written"));
  }
}

KernelPointer WriteBehind::Find(const std::string& key) const {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second;
}

bool WriteBehind::Remove(const std::string& key) {
  std::unique_lock lock(mutex_);
  if (by_key_.erase(key) == 0) return false;
  for (Waiting& waiting : queue_) {
    if (waiting.kernel == nullptr || waiting.kernel->key != key) continue;
    bytes_ -= BytesOf(*waiting.kernel);
    waiting.kernel = nullptr;
  }
  // One that is being written now lies in the directory soon, for the caller to
  // remove there.
  const KernelPointer written = writing_;
  if (written != nullptr && written->key == key) {
    change_.wait(lock, [&] { return writing_ != written; });
  }
  return true;
}

std::vector<KernelPointer> WriteBehind::List() const {
  std::lock_guard lock(mutex_);
  std::vector<KernelPointer> kernels;
  for (const auto& [key, kernel] : by_key_) kernels.push_back(kernel);
  return kernels;
}

void WriteBehind::Flush() {
  std::unique_lock lock(mutex_);
  change_.wait(lock, [this] { return queue_.empty() && writing_ == nullptr; });
}

void WriteBehind::Run() {
  options_.tidy();
  absl::Time tidied = SteadyNow();
  while (true) {
    bool work = false, stop = false;
    {
      std::unique_lock lock(mutex_);
      change_.wait_for(lock, absl::ToChronoNanoseconds(options_.interval),
                       [this] { return stopping_ || !queue_.empty(); });
      work = !queue_.empty();
      stop = stopping_;
    }
    if (work) WriteNext();
    const absl::Duration since = SteadyNow() - tidied;
    if (since >= options_.interval || (stop && !work)) {
      options_.tidy();
      tidied = SteadyNow();
    }
    if (stop && !work) return;
  }
}

void WriteBehind::WriteNext() {
  Waiting next;
  bool give_up = false;
  {
    std::lock_guard lock(mutex_);
    next = std::move(queue_.front());
    queue_.pop_front();
    writing_ = next.kernel;
    give_up = stopping_ && gave_up_;
  }
  absl::Status status;
  if (next.kernel != nullptr) {
    status = give_up ? absl::UnavailableError("not written before the end")
                     : options_.write(*next.kernel);
  }
  // Before the others are told: they look into the directory now.
  next.release.reset();
  if (!status.ok()) options_.failed(status);
  {
    std::lock_guard lock(mutex_);
    if (next.kernel != nullptr) {
      bytes_ -= BytesOf(*next.kernel);
      const auto found = by_key_.find(next.kernel->key);
      if (found != by_key_.end() && found->second == next.kernel) {
        by_key_.erase(found);
      }
    }
    gave_up_ = !status.ok();
    writing_ = nullptr;
  }
  change_.notify_all();
}

}  // namespace gemmd::jit
