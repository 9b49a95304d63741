#include "service/log/rate_limit.h"

#include <gtest/gtest.h>

namespace gemmd::log {
namespace {

int Admitted(RateLimit& limit, absl::string_view event, absl::Duration now,
             int lines) {
  int admitted = 0;
  for (int i = 0; i < lines; ++i)
    admitted += limit.Admit(event, now).has_value();
  return admitted;
}

TEST(RateLimitTest, ABurstIsWrittenThenSoManyASecond) {
  RateLimit limit;
  const absl::Duration start = absl::Hours(5);
  EXPECT_EQ(Admitted(limit, "request_failed", start, 1000), RateLimit::kBurst);
  EXPECT_EQ(Admitted(limit, "request_failed", start + absl::Seconds(2), 1000),
            2 * RateLimit::kPerSecond);
  EXPECT_EQ(Admitted(limit, "request_failed", start + absl::Hours(1), 1000),
            RateLimit::kBurst);
}

TEST(RateLimitTest, SaysHowManyWereLeftOut) {
  RateLimit limit;
  EXPECT_EQ(limit.Admit("a", absl::ZeroDuration()), 0);
  Admitted(limit, "a", absl::ZeroDuration(), RateLimit::kBurst - 1 + 7);
  EXPECT_EQ(limit.Admit("a", absl::Seconds(1)), 7);
  EXPECT_EQ(limit.Admit("a", absl::Seconds(1)), 0);
}

TEST(RateLimitTest, OneEventDoesNotSilenceAnother) {
  RateLimit limit;
  Admitted(limit, "request_failed", absl::ZeroDuration(), 1000);
  EXPECT_EQ(limit.Admit("device_failed", absl::ZeroDuration()), 0);
}

}  // namespace
}  // namespace gemmd::log
