#include "service/engine/executor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::engine {

Executor::Ticket::~Ticket() {
  if (executor_ != nullptr) executor_->GiveBack();
}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    device::Device& device, Options options) {
  auto executor = std::unique_ptr<Executor>(
      new Executor(device.description().name, options.max_queue));
  for (int i = 0; i < options.lanes; ++i) {
    ASSIGN_OR_RETURN(auto lane, device.CreateLane());
    executor->lanes_.push_back(std::move(lane));
  }
  for (auto& lane : executor->lanes_) {
    executor->threads_.emplace_back(&Executor::Serve, executor.get(),
                                    std::ref(*lane));
  }
  return executor;
}

Executor::~Executor() {
  std::deque<Entry> abandoned;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    abandoned.swap(queue_);
  }
  changed_.notify_all();
  for (Entry& entry : abandoned) {
    entry.job(absl::UnavailableError("the daemon is shutting down"));
  }
  abandoned.clear();
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<Executor::Ticket> Executor::Admit() {
  std::lock_guard lock(mutex_);
  if (waiting_ >= max_queue_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "device ", device_name_, " has ", waiting_,
        " requests waiting; the limit is ", max_queue_, ". Try again later."));
  }
  ++waiting_;
  return Ticket(this);
}

void Executor::Run(Ticket ticket, RequestContext context, Job job) {
  bool stopping;
  {
    std::lock_guard lock(mutex_);
    stopping = stopping_;
    if (!stopping) {
      queue_.push_back({std::move(ticket), std::move(context), std::move(job)});
    }
  }
  if (stopping) {
    job(absl::UnavailableError("the daemon is shutting down"));
  } else {
    changed_.notify_one();
  }
}

void Executor::Serve(device::Lane& lane) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    ++running_;
    {
      Entry entry = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      { const Ticket started = std::move(entry.ticket); }
      if (absl::Status status = entry.context.Check("execution");
          !status.ok()) {
        entry.job(status);
      } else {
        entry.job(&lane);
      }
    }
    lock.lock();
    --running_;
  }
}

void Executor::GiveBack() {
  std::lock_guard lock(mutex_);
  --waiting_;
}

int64_t Executor::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_;
}

int64_t Executor::load() const {
  std::lock_guard lock(mutex_);
  return waiting_ + running_;
}

}  // namespace gemmd::engine
