#include "service/monitor/nvml.h"

#include <gtest/gtest.h>

namespace gemmd::monitor {
namespace {

TEST(NvmlTest, ReadsTheGpuOfTheAddressInBaseUnits) {
  const Nvml nvml(GEMMD_TEST_NVML);
  const Nvml::Reading gpu = nvml.Read("0000:18:00.0");
  EXPECT_EQ(gpu.utilization, 0.75);
  EXPECT_EQ(gpu.temperature_celsius, 64);
  EXPECT_EQ(gpu.power_watts, 512.5);
  EXPECT_EQ(gpu.power_limit_watts, 700);
  EXPECT_EQ(gpu.ecc_corrected, 17);
}

TEST(NvmlTest, WhatItDoesNotSayIsAbsent) {
  const Nvml nvml(GEMMD_TEST_NVML);
  const Nvml::Reading gpu = nvml.Read("0000:18:00.0");
  EXPECT_EQ(gpu.clock_hertz, std::nullopt) << "the function is missing";
  EXPECT_EQ(gpu.ecc_uncorrected, std::nullopt) << "the GPU has none";
  EXPECT_EQ(nvml.Read("0000:99:00.0").power_watts, std::nullopt);
}

TEST(NvmlTest, WithoutTheLibraryNothingIsKnown) {
  const Nvml nvml("libno-such-nvml.so");
  EXPECT_EQ(nvml.Read("0000:18:00.0").temperature_celsius, std::nullopt);
}

}  // namespace
}  // namespace gemmd::monitor
