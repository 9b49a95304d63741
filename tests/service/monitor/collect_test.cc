#include "service/monitor/collect.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/service/test_engine.h"

namespace gemmd::monitor {
namespace {

using testing::TestEngine;

constexpr absl::Duration kUpload = absl::Milliseconds(20);
constexpr absl::Duration kExecute = absl::Milliseconds(60);
constexpr absl::Duration kDownload = absl::Milliseconds(180);

// The seconds of all products in `phase`.
double SecondsIn(const std::string &text, absl::string_view phase) {
  const std::string series = absl::StrCat(
      "gemmd_product_phase_duration_seconds_sum{device=\"fake:0\",", "phase=\"",
      phase, "\"} ");
  const size_t at = text.find(series);
  if (at == text.npos)
    return -1;
  const size_t from = at + series.size();
  double seconds = -1;
  (void)absl::SimpleAtod(text.substr(from, text.find('\n', at) - from),
                         &seconds);
  return seconds;
}

// A device that takes another time for each step.
TEST(CollectTest, EachPhaseIsTheTimeOfItsStep) {
  const auto hooks = std::make_shared<testing::Hooks>();
  hooks->allocate = [] {
    absl::SleepFor(kUpload);
    return absl::OkStatus();
  };
  hooks->multiply = [](const auto &, const auto &) {
    absl::SleepFor(kExecute);
    return absl::OkStatus();
  };
  hooks->download = [] {
    absl::SleepFor(kDownload);
    return absl::OkStatus();
  };
  TestEngine engine({}, {hooks});
  ASSERT_TRUE(engine.Multiply(TestEngine::Zeros()).Wait().ok());
  metrics::Exposition values;
  CollectDevices(*engine, Nvml("none"), values);
  const std::string text = values.Text();
  const double upload = SecondsIn(text, "upload");
  const double execute = SecondsIn(text, "execute");
  const double download = SecondsIn(text, "download");
  EXPECT_GE(upload, absl::ToDoubleSeconds(kUpload));
  EXPECT_GE(execute, absl::ToDoubleSeconds(kExecute));
  EXPECT_GE(download, absl::ToDoubleSeconds(kDownload));
  EXPECT_LT(upload, execute);
  EXPECT_LT(execute, download);
  for (const char *other : {"queue", "plan", "compile"}) {
    EXPECT_GE(SecondsIn(text, other), 0) << other;
    EXPECT_LT(SecondsIn(text, other), download) << other;
  }
  EXPECT_GE(SecondsIn(text, "total"), upload + execute + download);
}

} // namespace
} // namespace gemmd::monitor
