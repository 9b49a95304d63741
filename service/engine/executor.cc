#include "service/engine/executor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/base/thread_name.h"

namespace gemmd::engine {
namespace {

using Clock = std::chrono::steady_clock;  // Nobody sets it.

constexpr absl::string_view kStep = "execution";
// All lanes but one may idle so long before a task that is to run alone.
constexpr std::chrono::milliseconds kSolitudePatience{5};

int LanesOf(const Executor::Options& options) {
  return options.lanes + (options.short_cycles < 0 ? 0 : 1);
}

// Nothing that is allowed is to look like a device that hangs: where all lanes
// work each slows the others, and predictions may be off by half.
absl::Duration MostWork(const device::Description& device,
                        const Executor::Options& options) {
  const absl::Duration by_default = device.multiplications_per_s > 0
                                        ? Executor::kMostOfTheHost
                                        : Executor::kMostOfAGpu;
  const absl::Duration most = options.max_work == absl::ZeroDuration()
                                  ? by_default
                                  : options.max_work;
  return device.may_hang
             ? std::min(most, options.hang_limit / (2 * options.lanes))
             : most;
}

bool GivenUp(const std::shared_ptr<LaneTask>& task) { return task->given_up(); }

}  // namespace

Executor::Executor(device::Device& device, DeviceHealth& health,
                   Options options)
    : device_(device.description()),
      health_(health),
      hang_limit_(device_.may_hang ? options.hang_limit
                                   : absl::InfiniteDuration()),
      most_work_(MostWork(device_, options)),
      lane_count_(options.lanes),
      short_cycles_(options.short_cycles),
      places_(absl::StrCat("device ", device_.name), std::string(kStep),
              options.max_queue),
      changed_(options.spin),
      short_changed_(options.spin),
      running_(LanesOf(options)) {}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    device::Device& device, DeviceHealth& health, Options options) {
  auto executor =
      std::unique_ptr<Executor>(new Executor(device, health, options));
  for (int i = 0; i < LanesOf(options); ++i) {
    ASSIGN_OR_RETURN(auto lane, device.CreateLane());
    executor->lanes_.push_back(std::move(lane));
  }
  for (int i = 0; i < LanesOf(options); ++i) {
    executor->threads_.emplace_back(&Executor::Serve, executor.get(), i);
  }
  return executor;
}

void Executor::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.RingForAll();
    short_changed_.RingForAll();
  }
  places_.GiveUpAll(absl::UnavailableError("the daemon is shutting down"));
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

absl::Status Executor::Check(const Work& work) {
  const absl::Duration time = work.On(device_);
  if (time <= most_work_) return absl::OkStatus();
  ++refused_work_;
  return absl::ResourceExhaustedError(absl::StrCat(
      "device ", device_.name, " is predicted to work ",
      absl::FormatDuration(absl::Ceil(time, absl::Milliseconds(1))),
      " on this call; allowed: ", absl::FormatDuration(most_work_),
      " (--max-work). Use several calls."));
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
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) {
      const LaneTask& pushed = *task;
      const bool for_short_lane = short_lane_waits_ && IsShort(pushed);
      short_lane_waits_ &= !for_short_lane;
      queue_.Push(pushed.context().identity, pushed.charge(), std::move(task));
      return (for_short_lane ? short_changed_ : changed_).Ring();
    }
  }
  task->GiveUp(absl::UnavailableError("the daemon is shutting down"));
}

std::shared_ptr<LaneTask> Executor::Next(std::unique_lock<std::mutex>& lock,
                                         bool of_short) {
  const auto takes = [&](const std::shared_ptr<LaneTask>& task) {
    return !of_short || IsShort(*task);
  };
  while (!stopping_) {
    auto next = alone_ ? std::nullopt : queue_.Pop(GivenUp, takes);
    if (next && (*next)->alone()) {
      alone_ = true;
      alone_since_ = Clock::now();
    }
    if (next && short_lane_waits_ && !queue_.empty()) {
      // What came first of an identity is gone: what is next may be short.
      short_lane_waits_ = false;
      short_changed_.Ring();
    }
    if (next) return *std::move(next);
    short_lane_waits_ |= of_short;
    (of_short ? short_changed_ : changed_).Wait(lock);
  }
  return nullptr;
}

bool Executor::BeginAlone(std::unique_lock<std::mutex>& lock) {
  const bool alone = all_idle_.wait_for(lock, kSolitudePatience,
                                        [this] { return running_count_ == 0; });
  if (!alone) EndAlone();
  return alone;
}

void Executor::EndAlone() {
  alone_ = false;
  reserved_ += Clock::now() - alone_since_;
  changed_.RingForAll();
  short_changed_.RingForAll();
}

void Executor::Serve(int lane) {
  jit::NameThread("lane");
  std::unique_lock lock(mutex_);
  while (auto task = Next(lock, lane == lane_count_)) {
    const bool alone = task->alone() && BeginAlone(lock);
    running_[lane] = {task, Clock::now()};
    if (running_count_++ == 0) busy_since_ = running_[lane].since;
    ++begun_;
    lock.unlock();
    RunTask(lane, *task);
    lock.lock();
    running_[lane].task.reset();
    if (--running_count_ == 0) {
      busy_ += Clock::now() - busy_since_;
      if (alone_) all_idle_.notify_one();
    }
    if (alone) EndAlone();
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

absl::Duration Executor::reserved() const {
  std::lock_guard lock(mutex_);
  Clock::duration reserved = reserved_;
  if (alone_) reserved += Clock::now() - alone_since_;
  return absl::FromChrono(reserved);
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
