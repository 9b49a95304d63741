// Times contenders against each other, interleaved in one run.
//
// Burst: the device idles 30 ms, then does about 5 ms of one contender's
// work; the median of several such samples. Sustained: segments of 350 ms or
// as asked in alternating order, so that the power limit acts on all alike.
#ifndef GEMMD_TESTS_BENCH_TIMER_H_
#define GEMMD_TESTS_BENCH_TIMER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/gpu/event.h"
#include "service/gpu/graph.h"
#include "tests/bench/nvml.h"

namespace gemmd::bench {

// Something that does one iteration of the work, on operand copy `i`.
struct Contender {
  std::string name;
  std::function<absl::Status(int i)> enqueue;
};

class Timer {
 public:
  struct Options {
    int samples = 5;
    double idle_ms = 30;
    double burst_ms = 5;
    double segment_ms = 350;
    int segments = 4;  // Of each contender, sustained.
    std::optional<EnergyMeter> meter = std::nullopt;
  };

  // Of one iteration.
  struct Sustenance {
    double us = 0;
    double joules = 0;  // 0 without a meter.
  };

  static absl::StatusOr<Timer> Create(const gpu::Stream& stream,
                                      Options options);

  // Runs a contender once or twice and captures its work of `burst_ms`, over
  // `copies` operand copies in turn.
  class Prepared {
   public:
    const std::string& name() const { return name_; }

   private:
    friend class Timer;
    std::string name_;
    gpu::Graph graph_;
    int iterations_ = 0;
  };
  absl::StatusOr<Prepared> Prepare(const Contender& contender,
                                   int copies) const;

  // Microseconds per iteration of each, in their order.
  absl::StatusOr<std::vector<double>> Burst(
      absl::Span<const Prepared* const> contenders) const;
  absl::StatusOr<std::vector<Sustenance>> Sustained(
      absl::Span<const Prepared* const> contenders) const;
  // Coarse and quick, for dropping those that cannot win: the shorter of two
  // samples after little idle time.
  absl::StatusOr<std::vector<double>> Quick(
      absl::Span<const Prepared* const> contenders) const;

 private:
  Timer(const gpu::Stream& stream, Options options, gpu::Event begin,
        gpu::Event end)
      : stream_(stream),
        options_(options),
        begin_(std::move(begin)),
        end_(std::move(end)) {}

  // Milliseconds of device time that `work` takes.
  absl::StatusOr<double> Time(const std::function<absl::Status()>& work) const;
  // Microseconds per iteration over `replays` of its graph.
  absl::StatusOr<double> Replay(const Prepared& contender, int replays) const;
  // Samples of all contenders, in turns, each after `idle_ms`.
  absl::StatusOr<std::vector<std::vector<double>>> Interleave(
      absl::Span<const Prepared* const> contenders, int samples,
      double idle_ms) const;

  const gpu::Stream& stream_;
  const Options options_;
  gpu::Event begin_;
  gpu::Event end_;
};

double Median(std::vector<double> values);

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_TIMER_H_
