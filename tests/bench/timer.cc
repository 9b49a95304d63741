#include "tests/bench/timer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/time/clock.h"
#include "jit/base/status.h"

namespace gemmd::bench {
namespace {

// Nodes of a graph: enough to hide its launch behind the shortest kernels.
constexpr int kMaxIterations = 1500;
constexpr double kQuickIdleMs = 5;

}  // namespace

double Median(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

absl::StatusOr<Timer> Timer::Create(const gpu::Stream& stream,
                                    Options options) {
  ASSIGN_OR_RETURN(
      gpu::Event begin,
      gpu::Event::Create(&stream.context(), gpu::Event::Timing::kOn));
  ASSIGN_OR_RETURN(gpu::Event end, gpu::Event::Create(&stream.context(),
                                                      gpu::Event::Timing::kOn));
  return Timer(stream, options, std::move(begin), std::move(end));
}

absl::StatusOr<double> Timer::Time(
    const std::function<absl::Status()>& work) const {
  RETURN_IF_ERROR(begin_.Record(stream_));
  RETURN_IF_ERROR(work());
  RETURN_IF_ERROR(end_.Record(stream_));
  RETURN_IF_ERROR(stream_.Synchronize());
  return gpu::Event::Milliseconds(begin_, end_);
}

absl::StatusOr<Timer::Prepared> Timer::Prepare(const Contender& contender,
                                               int copies) const {
  // The first launch loads code and may allocate; neither can be captured.
  RETURN_IF_ERROR(contender.enqueue(0));
  RETURN_IF_ERROR(stream_.Synchronize());
  constexpr int kProbes = 3;
  ASSIGN_OR_RETURN(const double probe_ms, Time([&]() -> absl::Status {
                     for (int i = 0; i < kProbes; ++i) {
                       RETURN_IF_ERROR(contender.enqueue(i));
                     }
                     return absl::OkStatus();
                   }));
  const double iteration_ms = std::max(probe_ms / kProbes, 1e-3);
  int iterations =
      static_cast<int>(std::clamp(std::ceil(options_.burst_ms / iteration_ms),
                                  1.0, static_cast<double>(kMaxIterations)));
  // Whole rounds over the copies, so that every replay reads the same.
  if (iterations > copies) {
    iterations = (iterations + copies - 1) / copies * copies;
  }
  Prepared prepared;
  prepared.name_ = contender.name;
  prepared.iterations_ = iterations;
  ASSIGN_OR_RETURN(prepared.graph_,
                   gpu::Graph::Capture(stream_, [&]() -> absl::Status {
                     for (int i = 0; i < iterations; ++i) {
                       RETURN_IF_ERROR(contender.enqueue(i));
                     }
                     return absl::OkStatus();
                   }));
  RETURN_IF_ERROR(stream_.Synchronize());
  return prepared;
}

absl::StatusOr<double> Timer::Replay(const Prepared& contender,
                                     int replays) const {
  ASSIGN_OR_RETURN(const double ms, Time([&]() -> absl::Status {
                     for (int i = 0; i < replays; ++i) {
                       RETURN_IF_ERROR(contender.graph_.Launch(stream_));
                     }
                     return absl::OkStatus();
                   }));
  return 1000 * ms / (static_cast<double>(replays) * contender.iterations_);
}

absl::StatusOr<std::vector<std::vector<double>>> Timer::Interleave(
    absl::Span<const Prepared* const> contenders, int samples,
    double idle_ms) const {
  std::vector<std::vector<double>> all(contenders.size());
  for (int sample = 0; sample < samples; ++sample) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      absl::SleepFor(absl::Milliseconds(idle_ms));
      ASSIGN_OR_RETURN(const double us, Replay(*contenders[i], 1));
      all[i].push_back(us);
    }
  }
  return all;
}

absl::StatusOr<std::vector<double>> Timer::Burst(
    absl::Span<const Prepared* const> contenders) const {
  ASSIGN_OR_RETURN(const std::vector<std::vector<double>> all,
                   Interleave(contenders, options_.samples, options_.idle_ms));
  std::vector<double> medians;
  for (const std::vector<double>& samples : all) {
    medians.push_back(Median(samples));
  }
  return medians;
}

absl::StatusOr<std::vector<double>> Timer::Quick(
    absl::Span<const Prepared* const> contenders) const {
  ASSIGN_OR_RETURN(const std::vector<std::vector<double>> all,
                   Interleave(contenders, 2, kQuickIdleMs));
  std::vector<double> best;
  for (const std::vector<double>& samples : all) {
    best.push_back(*std::min_element(samples.begin(), samples.end()));
  }
  return best;
}

absl::StatusOr<std::vector<Timer::Sustenance>> Timer::Sustained(
    absl::Span<const Prepared* const> contenders) const {
  std::vector<int> replays;
  for (const Prepared* contender : contenders) {
    ASSIGN_OR_RETURN(const double us, Replay(*contender, 1));
    const double replay_ms = us * contender->iterations_ / 1000;
    replays.push_back(std::max(
        1, static_cast<int>(std::round(options_.segment_ms / replay_ms))));
  }
  const auto joules = [this] {
    return options_.meter.has_value() ? options_.meter->Joules() : 0;
  };
  std::vector<std::vector<double>> us(contenders.size());
  std::vector<std::vector<double>> energy(contenders.size());
  for (int segment = 0; segment < options_.segments; ++segment) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      // Forth, back, forth: nobody always follows the same neighbour.
      const size_t at = segment % 2 == 0 ? i : contenders.size() - 1 - i;
      const double before = joules();
      ASSIGN_OR_RETURN(const double each, Replay(*contenders[at], replays[at]));
      us[at].push_back(each);
      energy[at].push_back(
          (joules() - before) /
          (static_cast<double>(replays[at]) * contenders[at]->iterations_));
    }
  }
  std::vector<Sustenance> medians;
  for (size_t i = 0; i < contenders.size(); ++i) {
    medians.push_back({.us = Median(us[i]), .joules = Median(energy[i])});
  }
  return medians;
}

}  // namespace gemmd::bench
