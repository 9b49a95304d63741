#include "service/metrics/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

#include "absl/strings/match.h"

namespace gemmd::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ExpositionTest, SaysNameHelpTypeLabelsAndValue) {
  Exposition values;
  values.Add(Metric::kRequests, 3, {"a/B", "OK", "token"});
  const std::string text = values.Text();
  EXPECT_THAT(text, HasSubstr("# HELP gemmd_requests_total Calls that have"));
  EXPECT_THAT(text, HasSubstr("# TYPE gemmd_requests_total counter\n"));
  EXPECT_THAT(text, HasSubstr("gemmd_requests_total{method=\"a/B\",code=\"OK\","
                              "principal_class=\"token\"} 3"));
}

TEST(ExpositionTest, AMetricWithoutValuesIsLeftOut) {
  Exposition values;
  values.Add(Metric::kServing, 1);
  EXPECT_THAT(values.Text(), Not(HasSubstr("gemmd_requests_total")));
}

TEST(ExpositionTest, ALabelCannotForgeALine) {
  Exposition values;
  values.Add(Metric::kDeviceUp, 1, {"a\"} 7\nforged 8 \\"});
  EXPECT_THAT(values.Text(), HasSubstr(R"({device="a\"} 7\nforged 8 \\"} 1)"));
}

TEST(ExpositionTest, BucketsAddUp) {
  Histogram times;
  times.Observe(absl::Microseconds(20));
  times.Observe(absl::Microseconds(20));
  times.Observe(absl::Minutes(2));
  Exposition values;
  values.Add(Metric::kRequestDuration, times.Read(), {"a"});
  const std::string text = values.Text();
  const std::string name = "gemmd_request_duration_seconds";
  EXPECT_THAT(text, HasSubstr(name + "_bucket{method=\"a\",le=\"1e-05\"} 0"));
  EXPECT_THAT(text, HasSubstr(name + "_bucket{method=\"a\",le=\"60\"} 2"));
  EXPECT_THAT(text, HasSubstr(name + "_bucket{method=\"a\",le=\"+Inf\"} 3"));
  EXPECT_THAT(text, HasSubstr(name + "_count{method=\"a\"} 3"));
  EXPECT_THAT(text, HasSubstr(name + "_sum{method=\"a\"} 120.00004"));
}

TEST(ExpositionDeathTest, LabelsAreThoseOfTheTable) {
  Exposition values;
  EXPECT_DEATH(values.Add(Metric::kRequests, 1, {"a"}), "");
  EXPECT_DEATH(values.Add(Metric::kServing, 1, {"a"}), "");
  EXPECT_DEATH(values.Add(Metric::kRequestDuration, 1, {"a"}), "");
}

// The conventions of Prometheus: unit and kind last, base units.
TEST(MetricTest, NamesKeepToTheConventions) {
  const std::regex name("(gemmd|process)_[a-z]+(_[a-z]+)*");
  const std::regex label("[a-z]+(_[a-z]+)*");
  std::set<std::string> names;
  for (size_t i = 0; i < kMetrics; ++i) {
    const Description& metric = Describe(static_cast<Metric>(i));
    SCOPED_TRACE(metric.name);
    EXPECT_TRUE(std::regex_match(std::string(metric.name), name));
    EXPECT_TRUE(names.emplace(metric.name).second);
    EXPECT_EQ(absl::EndsWith(metric.name, "_total"),
              metric.kind == Kind::kCounter);
    if (metric.kind == Kind::kHistogram) {
      EXPECT_TRUE(absl::EndsWith(metric.name, "_seconds"));
    }
    for (const absl::string_view wrong :
         {"_ms", "_us", "_ns", "_mb", "_gb", "_percent", "_mhz"}) {
      EXPECT_FALSE(absl::StrContains(metric.name, wrong));
    }
    for (const std::string& each : metric.labels) {
      EXPECT_TRUE(std::regex_match(each, label));
      EXPECT_NE(each, "le");
      EXPECT_NE(each, "job");
      EXPECT_NE(each, "instance");
    }
    EXPECT_TRUE(absl::EndsWith(metric.help, "."));
  }
}

}  // namespace
}  // namespace gemmd::metrics
