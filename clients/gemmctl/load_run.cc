#include "clients/gemmctl/load_run.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"

namespace gemmd::gemmctl {

const char* const kPhaseNames[kPhases] = {"late",     "queue",  "plan",
                                          "compile",  "upload", "execute",
                                          "download", "rest"};

namespace {

// When requests are due and which work is theirs. Thread-safe.
class Schedule {
 public:
  Schedule(const LoadOptions& options, absl::Time start, size_t works)
      : rate_(options.rate),
        works_(works),
        end_(start + options.warmup + options.duration),
        due_(start) {}

  struct Turn {
    absl::Time due;
    size_t work;
  };
  // The next one; nothing when it would be due after the end.
  std::optional<Turn> Next() {
    std::lock_guard lock(mutex_);
    if (rate_ > 0) {
      due_ += absl::Seconds(std::exponential_distribution<>(rate_)(random_));
    } else {
      due_ = jit::SteadyNow();
    }
    if (due_ >= end_) return std::nullopt;
    return Turn{due_, next_++ % works_};
  }

 private:
  const double rate_;
  const size_t works_;
  const absl::Time end_;
  std::mutex mutex_;
  absl::Time due_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
};

// One that has a request in flight, or waits for the next one to be due.
struct Worker {
  client::Client* client = nullptr;
  std::vector<std::unique_ptr<Work::Request>> requests;  // One for each work.
  std::vector<Tally> by_work;
  absl::Time last_end = absl::InfinitePast();
  int64_t unsent = 0;
};

void Count(const absl::StatusOr<v1::Execution>& execution, absl::Time due,
           absl::Time sent, absl::Time end, Tally& tally) {
  if (!execution.ok()) {
    const absl::Status& status = execution.status();
    Failures& failures = tally.failures[status.code()];
    if (failures.count++ == 0) failures.first = std::string(status.message());
    return;
  }
  const v1::Phases& phases = execution->phases();
  const int64_t of_daemon[] = {phases.queue_us(),   phases.plan_us(),
                               phases.compile_us(), phases.upload_us(),
                               phases.execute_us(), phases.download_us()};
  absl::Duration rest = end - sent;
  for (int i = 0; i < 6; ++i) {
    const absl::Duration time = absl::Microseconds(of_daemon[i]);
    tally.phases[kQueue + i].Add(time);
    rest -= time;
  }
  tally.phases[kLate].Add(sent - due);
  tally.phases[kRest].Add(rest);
  tally.latency.Add(end - due);
}

void Serve(const std::stop_token& stop, Worker& worker, Schedule& schedule,
           absl::Time from, absl::Time to, absl::Duration timeout) {
  while (const auto turn = schedule.Next()) {
    if (stop.stop_requested()) return;
    absl::SleepFor(turn->due - jit::SteadyNow());
    const absl::Time sent = jit::SteadyNow();
    if (sent >= to) {  // It is too late for what was due long ago.
      ++worker.unsent;
      continue;
    }
    const auto execution =
        worker.requests[turn->work]->Send(*worker.client, timeout);
    const absl::Time end = jit::SteadyNow();
    if (turn->due < from) continue;
    Count(execution, turn->due, sent, end, worker.by_work[turn->work]);
    worker.last_end = std::max(worker.last_end, end);
  }
}

}  // namespace

void Tally::Merge(const Tally& other) {
  latency.Merge(other.latency);
  for (int i = 0; i < kPhases; ++i) phases[i].Merge(other.phases[i]);
  for (const auto& [code, more] : other.failures) {
    Failures& here = failures[code];
    if (here.count == 0) here.first = more.first;
    here.count += more.count;
  }
}

absl::StatusOr<LoadResult> RunLoad(
    client::Client& client, const std::vector<std::unique_ptr<Work>>& works,
    const LoadOptions& options) {
  std::vector<std::unique_ptr<client::Client>> connections;
  for (int i = 0; i < options.connections; ++i) {
    ASSIGN_OR_RETURN(connections.emplace_back(), client.Another());
  }
  std::vector<Worker> workers(options.concurrency);
  for (size_t i = 0; i < workers.size(); ++i) {
    Worker& worker = workers[i];
    worker.client = connections[i % connections.size()].get();
    worker.by_work.resize(works.size());
    for (const auto& work : works) {
      ASSIGN_OR_RETURN(worker.requests.emplace_back(),
                       work->MakeRequest(*worker.client, i));
    }
  }
  const absl::Time start = jit::SteadyNow();
  const absl::Time from = start + options.warmup;
  Schedule schedule(options, start, works.size());
  // Where the system gives no more of them, those that there are stop.
  std::vector<std::jthread> threads;
  for (Worker& worker : workers) {
    threads.emplace_back([&](const std::stop_token& stop) {
      Serve(stop, worker, schedule, from, from + options.duration,
            options.timeout);
    });
  }
  for (std::jthread& thread : threads) thread.join();
  LoadResult result;
  result.by_work.resize(works.size());
  for (const Worker& worker : workers) {
    for (size_t i = 0; i < works.size(); ++i) {
      result.by_work[i].Merge(worker.by_work[i]);
    }
    result.elapsed = std::max(result.elapsed, worker.last_end - from);
    result.unsent += worker.unsent;
  }
  return result;
}

}  // namespace gemmd::gemmctl
