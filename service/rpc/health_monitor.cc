#include "service/rpc/health_monitor.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "jit/base/thread_name.h"

namespace gemmd::rpc {
namespace {

using Clock = std::chrono::steady_clock;

// How long Stop waits for a probe, which normally takes milliseconds.
constexpr absl::Duration kPatience = absl::Seconds(1);

// One device as its probes found it.
struct Findings {
  device::Device* device;
  std::optional<Clock::time_point> since;  // Of the probe that runs.
  std::optional<absl::Status> last;        // Of the last one that ended.
  int failures = 0;                        // In a row, of those that ended.
  std::optional<absl::Status> told;
};

// A state, and failures in a row up to now. Nothing is known before the first
// probe has ended or timed out.
struct Verdict {
  std::optional<absl::Status> state;
  int failures = 0;
};

Verdict VerdictOf(const Findings& findings, absl::Duration timeout) {
  Verdict verdict = {.state = findings.last, .failures = findings.failures};
  if (!findings.since.has_value()) return verdict;
  const absl::Duration running =
      absl::FromChrono(Clock::now() - *findings.since);
  if (running < timeout) return verdict;
  verdict.failures += static_cast<int>(running / timeout);
  verdict.state = absl::DeadlineExceededError(absl::StrCat(
      "the device's probe did not end within ", absl::FormatDuration(timeout)));
  return verdict;
}

}  // namespace

// Outlives the monitor with the threads that hang in a probe.
struct HealthMonitor::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Findings> devices ABSL_GUARDED_BY(mutex);
  int64_t ended ABSL_GUARDED_BY(mutex) = 0;  // Probes.
  int probing ABSL_GUARDED_BY(mutex) = 0;    // Threads.
  bool told_all ABSL_GUARDED_BY(mutex) = false;
  bool stopping ABSL_GUARDED_BY(mutex) = false;

  // Of one device's thread.
  void Probe(size_t device, absl::Duration interval,
             const std::function<absl::Status(int)>& probe) {
    std::unique_lock lock(mutex);
    Findings& findings = devices[device];
    while (!stopping) {
      findings.since = Clock::now();
      lock.unlock();
      absl::Status status =
          probe ? probe(static_cast<int>(device)) : findings.device->Probe();
      lock.lock();
      findings.since.reset();
      findings.failures = status.ok() ? 0 : findings.failures + 1;
      findings.last = std::move(status);
      ++ended;
      changed.notify_all();
      changed.wait_for(lock, absl::ToChronoNanoseconds(interval),
                       [this] { return stopping; });
    }
    --probing;
    changed.notify_all();
  }
};

HealthMonitor::HealthMonitor(Options options,
                             const std::vector<device::Device*>& devices)
    : options_(std::move(options)), shared_(std::make_shared<Shared>()) {
  for (device::Device* device : devices) {
    shared_->devices.push_back({.device = device});
  }
  shared_->probing = static_cast<int>(devices.size());
  for (size_t i = 0; i < devices.size(); ++i) {
    std::thread([shared = shared_, i, interval = options_.interval,
                 probe = options_.probe] {
      jit::NameThread("probe");
      shared->Probe(i, interval, probe);
    }).detach();
  }
  judge_ = std::thread([this] { Judge(); });
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [this] { return shared_->told_all; });
}

HealthMonitor::~HealthMonitor() { Stop(); }

bool HealthMonitor::Stop() {
  if (!judge_.joinable()) return quiet_;
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
  }
  shared_->changed.notify_all();
  judge_.join();
  std::unique_lock lock(shared_->mutex);
  quiet_ = shared_->changed.wait_for(lock, absl::ToChronoNanoseconds(kPatience),
                                     [this] { return shared_->probing == 0; });
  return quiet_;
}

void HealthMonitor::Judge() {
  jit::NameThread("health");
  // Nothing tells that a probe takes too long.
  const auto tick = absl::ToChronoNanoseconds(std::clamp(
      options_.timeout / 4, absl::Milliseconds(5), absl::Seconds(1)));
  bool told_lost = false;
  int64_t seen = 0;
  while (true) {
    const bool lost = TellChanges();
    if (lost && !std::exchange(told_lost, true) && options_.on_all_lost) {
      options_.on_all_lost();
    }
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait_for(lock, tick, [&] {
      return shared_->stopping || shared_->ended != seen;
    });
    if (shared_->stopping) return;
    seen = shared_->ended;
  }
}

bool HealthMonitor::TellChanges() {
  std::vector<std::pair<int, absl::Status>> changes;
  bool lost = true;
  bool all_known = true;
  {
    std::lock_guard lock(shared_->mutex);
    for (size_t i = 0; i < shared_->devices.size(); ++i) {
      Findings& findings = shared_->devices[i];
      const Verdict verdict = VerdictOf(findings, options_.timeout);
      lost &= verdict.failures >= kMaxFailures;
      all_known &= verdict.state.has_value();
      if (!verdict.state.has_value() || findings.told == verdict.state)
        continue;
      findings.told = verdict.state;
      changes.emplace_back(i, *verdict.state);
    }
  }
  for (const auto& [device, state] : changes) {
    if (options_.on_change) options_.on_change(device, state);
  }
  if (all_known) {
    std::lock_guard lock(shared_->mutex);
    shared_->told_all = true;
    shared_->changed.notify_all();
  }
  return lost;
}

}  // namespace gemmd::rpc
