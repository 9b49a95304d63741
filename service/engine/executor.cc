#include "service/engine/executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"

namespace gemmd::engine {
namespace {

using Clock = std::chrono::steady_clock;  // Nobody sets it.

constexpr absl::string_view kStep = "execution";

bool GivenUp(const std::shared_ptr<LaneTask>& task) { return task->given_up(); }

}  // namespace

Executor::Executor(device::Device& device, DeviceHealth& health,
                   Options options)
    : device_(device.description()),
      health_(health),
      hang_limit_(device_.may_hang ? options.hang_limit
                                   : absl::InfiniteDuration()),
      places_(absl::StrCat("device ", device_.name), std::string(kStep),
              options.max_queue),
      running_(options.lanes) {}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    device::Device& device, DeviceHealth& health, Options options) {
  auto executor =
      std::unique_ptr<Executor>(new Executor(device, health, options));
  for (int i = 0; i < options.lanes; ++i) {
    ASSIGN_OR_RETURN(auto lane, device.CreateLane());
    executor->lanes_.push_back(std::move(lane));
  }
  for (int i = 0; i < options.lanes; ++i) {
    executor->threads_.emplace_back(&Executor::Serve, executor.get(), i);
  }
  return executor;
}

void Executor::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  places_.GiveUpAll(absl::UnavailableError("the daemon is shutting down"));
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

absl::Status Executor::Admit(Waiter& task, Places::Entry entry) {
  return task.WaitIn(places_, entry);
}

void Executor::Submit(std::shared_ptr<LaneTask> task) {
  const absl::Status admitted = Admit(*task);
  if (!admitted.ok()) return task->GiveUp(admitted);
  Enqueue(std::move(task));
}

void Executor::Enqueue(std::shared_ptr<LaneTask> task) {
  bool stopping;
  {
    std::lock_guard lock(mutex_);
    stopping = stopping_;
    if (!stopping) {
      const LaneTask& pushed = *task;
      queue_.Push(pushed.context().identity, pushed.charge(), std::move(task));
    }
  }
  if (stopping) {
    task->GiveUp(absl::UnavailableError("the daemon is shutting down"));
  } else {
    changed_.notify_one();
  }
}

void Executor::Serve(int lane) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    auto next = queue_.Pop(GivenUp);
    if (!next) continue;
    std::shared_ptr<LaneTask> task = *std::move(next);
    running_[lane] = {task, Clock::now()};
    if (running_count_++ == 0) busy_since_ = running_[lane].since;
    ++begun_;
    lock.unlock();
    RunTask(lane, *task);
    lock.lock();
    running_[lane].task.reset();
    if (--running_count_ == 0) busy_ += Clock::now() - busy_since_;
    lock.unlock();
    task.reset();  // It may hold much, and others wait for the lock.
    lock.lock();
  }
}

void Executor::RunTask(int lane, LaneTask& task) {
  if (absl::Status why = task.Check(kStep); !why.ok()) return task.GiveUp(why);
  if (!task.Begin()) return;
  if (!task.Run(*lanes_[lane])) return;
  // There is more to do, in turn with what others wait for.
  task.BeginAgain();
  const absl::Status admitted = Admit(task, Places::Entry::kAlways);
  if (!admitted.ok()) return task.GiveUp(admitted);
  Enqueue(std::static_pointer_cast<LaneTask>(task.shared_from_this()));
}

void Executor::Sweep() {
  places_.Sweep();
  std::vector<std::shared_ptr<LaneTask>> running, gone;
  const Clock::time_point now = Clock::now();
  bool hangs = false;
  {
    std::lock_guard lock(mutex_);
    gone = queue_.RemoveIf(GivenUp);
    for (const Running& one : running_) {
      if (one.task == nullptr) continue;
      running.push_back(one.task);
      hangs |= absl::FromChrono(now - one.since) > hang_limit_;
    }
  }
  if (hangs) {
    health_.Fail(absl::StrCat("it has worked on one request for more than ",
                              absl::FormatDuration(hang_limit_)));
  }
  if (absl::Status why = health_.Check(); !why.ok()) {
    for (const auto& task : running) task->Abandon(why);
  }
}

bool Executor::HasIdleLane() const {
  if (places_.taken() > 0) return false;
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(
      running_, [](const Running& one) { return one.task == nullptr; });
}

Executor::Activity Executor::activity() const {
  std::lock_guard lock(mutex_);
  const auto running = std::ranges::count_if(
      running_, [](const Running& one) { return one.task != nullptr; });
  return {static_cast<int>(running), begun_};
}

absl::Duration Executor::busy() const {
  std::lock_guard lock(mutex_);
  Clock::duration busy = busy_;
  if (running_count_ > 0) busy += Clock::now() - busy_since_;
  return absl::FromChrono(busy);
}

int64_t Executor::load() const {
  int64_t load = places_.cost();
  std::lock_guard lock(mutex_);
  for (const Running& one : running_) {
    if (one.task != nullptr) load += one.task->cost();
  }
  return load;
}

}  // namespace gemmd::engine
