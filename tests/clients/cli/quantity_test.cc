// Sizes and durations with units, and numbers.
#include "clients/cli/quantity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

namespace gemmd::cli {
namespace {

using ::testing::HasSubstr;

TEST(QuantityTest, SizesHaveBinaryAndDecimalUnits) {
  EXPECT_EQ(*ParseBytes("0"), 0);
  EXPECT_EQ(*ParseBytes("65536"), 65536);
  EXPECT_EQ(*ParseBytes("64KiB"), 65536);
  EXPECT_EQ(*ParseBytes("4GiB"), int64_t{4} << 30);
  EXPECT_EQ(*ParseBytes("2 GB"), 2'000'000'000);
  EXPECT_EQ(*ParseBytes("1tib"), int64_t{1} << 40);
}

TEST(QuantityTest, WhatIsNoSizeIsRefused) {
  for (const char* wrong : {"", "GiB", "-1", "-1GiB", "4 apples", "1.5GiB",
                            "99999999999GiB", "18446744073709551615"}) {
    EXPECT_FALSE(ParseBytes(wrong).ok()) << wrong;
  }
  EXPECT_THAT(ParseBytes("x").status().message(), HasSubstr("4GiB"));
}

TEST(QuantityTest, SizesAreShownAsTheyAreRead) {
  for (int64_t bytes : {int64_t{0}, int64_t{65536}, int64_t{2147483647},
                        int64_t{1} << 30, int64_t{3} << 40}) {
    EXPECT_EQ(*ParseBytes(FormatBytes(bytes)), bytes);
  }
  EXPECT_EQ(FormatBytes(int64_t{1} << 30), "1GiB");
  EXPECT_EQ(FormatBytes(0), "0");
}

TEST(QuantityTest, BareTimesCountTheUnitOfTheirOption) {
  EXPECT_EQ(*ParseDuration("250", absl::Milliseconds(1)),
            absl::Milliseconds(250));
  EXPECT_EQ(*ParseDuration("1.5", absl::Seconds(1)), absl::Milliseconds(1500));
  EXPECT_EQ(*ParseDuration("30s", absl::Milliseconds(1)), absl::Seconds(30));
  EXPECT_EQ(*ParseDuration("1h30m", absl::Seconds(1)), absl::Minutes(90));
}

TEST(QuantityTest, WithoutAUnitOfTheirOptionTimesBringTheirs) {
  EXPECT_EQ(*ParseDuration("30s", std::nullopt), absl::Seconds(30));
  EXPECT_EQ(*ParseDuration("0", std::nullopt), absl::ZeroDuration());
  for (const char* wrong : {"30", "0.5", "1e3", "inf"}) {
    EXPECT_EQ(ParseDuration(wrong, std::nullopt).status().message(),
              "a time with its unit, such as 500ms, 30s, 1h30m")
        << wrong;
  }
}

TEST(QuantityTest, WhatIsNoTimeIsRefused) {
  for (const char* wrong : {"", "s", "-1", "-1s", "nan", "inf", "3 apples"}) {
    EXPECT_FALSE(ParseDuration(wrong, absl::Seconds(1)).ok()) << wrong;
  }
  EXPECT_THAT(ParseDuration("x", absl::Milliseconds(1)).status().message(),
              HasSubstr("a bare number counts 1ms"));
}

TEST(QuantityTest, InfinityIsSaidInWords) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(*ParseF32("0.1"), 0.1f);
  EXPECT_EQ(*ParseF32("3.4028235e38"), std::numeric_limits<float>::max());
  EXPECT_EQ(*ParseF32("inf"), kInfinity);
  EXPECT_EQ(*ParseF32("-Infinity"), -kInfinity);
  EXPECT_TRUE(std::isnan(*ParseF32("nan")));
  for (const char* wrong : {"1e39", "-1e39", "1e400", "-1e99999"}) {
    EXPECT_TRUE(absl::IsOutOfRange(ParseF32(wrong).status())) << wrong;
  }
  for (const char* wrong : {"", "two", "1 2", "infinite"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseF32(wrong).status())) << wrong;
  }
}

}  // namespace
}  // namespace gemmd::cli
