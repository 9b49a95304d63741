// What is told of caches, queues and devices that are not the host.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/monitor/collect.h"
#include "tests/service/gate.h"
#include "tests/service/test_engine.h"

namespace gemmd::monitor {
namespace {

using testing::TestEngine;

void ExpectLine(const std::string& text, absl::string_view line) {
  EXPECT_TRUE(absl::StrContains(text, absl::StrCat("\n", line, "\n")))
      << line << " in\n"
      << text;
}

TEST(CollectGaugesTest, EachNumberOfTheCacheHasItsName) {
  TestEngine engine({}, {std::make_shared<testing::Hooks>()});
  jit::CacheStatistics statistics = {.memory_hits = 1,
                                     .compiles = 3,
                                     .compile_errors = 4,
                                     .rejected_at_once = 5,
                                     .quarantined = 6,
                                     .write_errors = 7};
  statistics.tiers.push_back({.name = "disk",
                              .hits = 11,
                              .misses = 12,
                              .errors = 13,
                              .bytes_loaded = 14,
                              .bytes_stored = 15,
                              .load_us = 1'500'000});
  engine.cache().Tell(statistics);
  metrics::Exposition values;
  CollectCache(*engine, values);
  const std::string text = values.Text();
  for (const char* line :
       {"gemmd_cache_memory_hits_total 1", "gemmd_compiles_total 3",
        "gemmd_compile_errors_total 4", "gemmd_compile_rejections_total 5",
        "gemmd_cache_quarantined_total 6", "gemmd_cache_write_errors_total 7",
        "gemmd_cache_loads_total{tier=\"disk\",result=\"hit\"} 11",
        "gemmd_cache_loads_total{tier=\"disk\",result=\"miss\"} 12",
        "gemmd_cache_loads_total{tier=\"disk\",result=\"error\"} 13",
        "gemmd_cache_bytes_total{tier=\"disk\",direction=\"loaded\"} 14",
        "gemmd_cache_bytes_total{tier=\"disk\",direction=\"stored\"} 15",
        "gemmd_cache_load_seconds_total{tier=\"disk\"} 1.5",
        "gemmd_compile_waiting 0"}) {
    ExpectLine(text, line);
  }
}

TEST(CollectGaugesTest, ADeviceSaysWhatItIsAndHolds) {
  const auto hooks = std::make_shared<testing::Hooks>();
  hooks->bus_id = "0000:18:00.0";
  hooks->pinned_memory = {
      .in_use_bytes = 100, .idle_bytes = 20, .limit_bytes = 3000};
  hooks->multiply = [](const auto&, const auto&) {
    return absl::InternalError("no product");
  };
  TestEngine engine({.tensors = {.max_bytes = 4096}}, {hooks});
  ASSERT_FALSE(engine.Multiply(TestEngine::Zeros()).Wait().ok());
  metrics::Exposition values;
  CollectDevices(*engine, Nvml(GEMMD_TEST_NVML), values);
  const std::string text = values.Text();
  for (const char* line :
       {"gemmd_pinned_memory_bytes{device=\"fake:0\",state=\"in_use\"} 100",
        "gemmd_pinned_memory_bytes{device=\"fake:0\",state=\"idle\"} 20",
        "gemmd_pinned_memory_limit_bytes{device=\"fake:0\"} 3000",
        "gemmd_gpu_utilization_ratio{device=\"fake:0\"} 0.75",
        "gemmd_gpu_temperature_celsius{device=\"fake:0\"} 64",
        "gemmd_gpu_power_watts{device=\"fake:0\"} 512.5",
        "gemmd_gpu_power_limit_watts{device=\"fake:0\"} 700",
        "gemmd_gpu_ecc_errors_total{device=\"fake:0\",kind=\"corrected\"} 17",
        "gemmd_product_failures_total{device=\"fake:0\"} 1",
        "gemmd_product_operations_total{device=\"fake:0\"} 0",
        "gemmd_tensor_limit_bytes{device=\"fake:0\"} 4096",
        "gemmd_device_up{device=\"fake:0\"} 1"}) {
    ExpectLine(text, line);
  }
}

}  // namespace
}  // namespace gemmd::monitor
