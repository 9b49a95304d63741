#include "clients/gemmctl/histogram.h"

#include <gtest/gtest.h>

namespace gemmd::gemmctl {
namespace {

TEST(HistogramTest, QuantilesAreWithinOnePartInSixtyFour) {
  for (const int64_t unit : {int64_t{1}, int64_t{1000}, int64_t{999'983}}) {
    Histogram times;
    for (int i = 1; i <= 1000; ++i) times.Add(absl::Nanoseconds(i * unit));
    EXPECT_EQ(times.count(), 1000);
    for (const double q : {0.001, 0.5, 0.9, 0.99, 0.999}) {
      const double exact = q * 1000 * static_cast<double>(unit);
      const double found = absl::ToDoubleNanoseconds(times.Quantile(q));
      EXPECT_GE(found, exact) << q;
      EXPECT_LE(found, exact * (1 + 1.0 / 64)) << q;
    }
    EXPECT_EQ(times.Quantile(1), absl::Nanoseconds(1000 * unit));
    EXPECT_EQ(times.max(), absl::Nanoseconds(1000 * unit));
    EXPECT_EQ(times.mean(), absl::Nanoseconds(1001 * unit) / 2);
  }
}

TEST(HistogramTest, AnyTimeHasAPlace) {
  Histogram times;
  times.Add(absl::Seconds(-5));
  EXPECT_EQ(times.Quantile(0.5), absl::ZeroDuration());
  for (int i = 0; i < 63; ++i) {
    for (const int64_t ns : {int64_t{1} << i, (int64_t{1} << i) - 1}) {
      Histogram one;
      one.Add(absl::Nanoseconds(ns));
      EXPECT_EQ(one.Quantile(0.5), absl::Nanoseconds(ns));
    }
  }
  times.Add(absl::InfiniteDuration());
  EXPECT_EQ(times.count(), 2);
}

TEST(HistogramTest, NoneAndThoseOfOthers) {
  Histogram all, some;
  EXPECT_EQ(all.Quantile(0.99), absl::ZeroDuration());
  EXPECT_EQ(all.mean(), absl::ZeroDuration());
  some.Add(absl::Milliseconds(1));
  all.Add(absl::Milliseconds(3));
  all.Merge(some);
  EXPECT_EQ(all.count(), 2);
  EXPECT_EQ(all.mean(), absl::Milliseconds(2));
  EXPECT_EQ(all.max(), absl::Milliseconds(3));
}

}  // namespace
}  // namespace gemmd::gemmctl
