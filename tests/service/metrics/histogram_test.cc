#include "service/metrics/histogram.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace gemmd::metrics {
namespace {

// The bucket that `duration` falls into.
size_t BucketOf(absl::Duration duration) {
  Histogram histogram;
  histogram.Observe(duration);
  const Histogram::Snapshot read = histogram.Read();
  EXPECT_EQ(read.count(), 1);
  size_t bucket = 0;
  while (read.counts[bucket] == 0) ++bucket;
  return bucket;
}

TEST(HistogramTest, ABoundBelongsToItsBucket) {
  for (size_t i = 0; i < Histogram::kBoundsUs.size(); ++i) {
    const absl::Duration bound = absl::Microseconds(Histogram::kBoundsUs[i]);
    EXPECT_EQ(BucketOf(bound), i);
    EXPECT_EQ(BucketOf(bound + absl::Nanoseconds(1)), i + 1);
  }
}

TEST(HistogramTest, NothingFallsOutside) {
  EXPECT_EQ(BucketOf(absl::ZeroDuration()), 0u);
  EXPECT_EQ(BucketOf(absl::Hours(100)), Histogram::kBuckets - 1);
}

// A clock that was set back.
TEST(HistogramTest, ANegativeTimeIsNone) {
  Histogram histogram;
  histogram.Observe(-absl::Seconds(5));
  EXPECT_EQ(histogram.Read().counts[0], 1);
  EXPECT_EQ(histogram.Read().sum_s, 0);
}

TEST(HistogramTest, BoundsGrow) {
  EXPECT_TRUE(std::ranges::is_sorted(Histogram::kBoundsUs));
}

TEST(HistogramTest, ThreadsLoseNothing) {
  Histogram histogram;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 10000; ++j)
        histogram.Observe(absl::Milliseconds(j % 7));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Histogram::Snapshot read = histogram.Read();
  EXPECT_EQ(read.count(), 40000);
  double sum_ms = 0;
  for (int j = 0; j < 10000; ++j) sum_ms += j % 7;
  EXPECT_NEAR(read.sum_s, 4 * sum_ms / 1000, 1e-6);
}

}  // namespace
}  // namespace gemmd::metrics
