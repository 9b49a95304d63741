// How long something took, counted in buckets. Whoever counts never waits: a
// few relaxed additions, whatever the number of threads. Who reads while others
// count may see one of them in part. Thread-safe.
#ifndef GEMMD_SERVICE_METRICS_HISTOGRAM_H_
#define GEMMD_SERVICE_METRICS_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace gemmd::metrics {

class Histogram {
 public:
  // What buckets hold at most, in microseconds; one more holds the rest. Three
  // a decade, from what a small product takes to what a client waits for.
  static constexpr std::array<int64_t, 21> kBoundsUs = {
      10,      25,      50,      100,     250,      500,      1'000,
      2'500,   5'000,   10'000,  25'000,  50'000,   100'000,  250'000,
      500'000, 1000000, 2500000, 5000000, 10000000, 30000000, 60000000};
  static constexpr size_t kBuckets = kBoundsUs.size() + 1;

  struct Snapshot {
    std::array<int64_t, kBuckets> counts = {};
    double sum_s = 0;

    int64_t count() const {
      int64_t sum = 0;
      for (const int64_t count : counts) sum += count;
      return sum;
    }
  };

  void Observe(absl::Duration duration) {
    const int64_t ns = std::max<int64_t>(0, absl::ToInt64Nanoseconds(duration));
    const auto bound = std::ranges::lower_bound(
        kBoundsUs, ns, {}, [](int64_t us) { return us * 1000; });
    counts_[static_cast<size_t>(bound - kBoundsUs.begin())].fetch_add(
        1, std::memory_order_relaxed);
    sum_ns_.fetch_add(ns, std::memory_order_relaxed);
  }

  Snapshot Read() const {
    Snapshot snapshot;
    for (size_t i = 0; i < kBuckets; ++i) {
      snapshot.counts[i] = counts_[i].load(std::memory_order_relaxed);
    }
    snapshot.sum_s =
        static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) / 1e9;
    return snapshot;
  }

 private:
  std::array<std::atomic<int64_t>, kBuckets> counts_ = {};
  std::atomic<int64_t> sum_ns_ = 0;
};

}  // namespace gemmd::metrics

#endif  // GEMMD_SERVICE_METRICS_HISTOGRAM_H_
