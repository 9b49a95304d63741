// Which GPUs of a machine are opened.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "service/gpu/cuda_device.h"
#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

class OpenDevicesTest : public testing::Test {
 protected:
  void Add(int major, int minor) {
    const int device = fake_.devices++;
    fake_.device_attributes[{
        device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR}] = major;
    fake_.device_attributes[{
        device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR}] = minor;
  }

  FakeDriver fake_;
};

TEST_F(OpenDevicesTest, ThoseOfHopperAloneWhichReadEachOther) {
  fake_.devices = 0;
  for (const auto& [major, minor] :
       {std::pair(8, 0), {9, 0}, {10, 0}, {9, 1}, {9, 0}, {8, 9}, {9, 0}}) {
    Add(major, minor);
  }
  fake_.driver_version = 12040;
  const auto devices = OpenCudaDevices(fake_.table(), {});
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 3u);
  EXPECT_EQ((*devices)[0]->description().name, "cuda:1");
  EXPECT_EQ((*devices)[0]->description().driver, "12.4");
  EXPECT_EQ((*devices)[1]->description().name, "cuda:4");
  EXPECT_EQ((*devices)[2]->description().name, "cuda:6");
  EXPECT_EQ(fake_.admitted, (std::vector<CUdevice>{4, 6, 1, 6, 1, 4}));
}

TEST_F(OpenDevicesTest, OneThatCannotBeOpenedLeavesTheOthers) {
  fake_.devices = 0;
  for (int i = 0; i < 3; ++i) Add(9, 0);
  std::vector<int> told;
  Options options;
  options.unusable = [&](int ordinal, const absl::Status&) {
    told.push_back(ordinal);
  };
  fake_.Fail("cuMemPoolCreate", CUDA_ERROR_UNKNOWN, 1, 1);
  const auto devices = OpenCudaDevices(fake_.table(), options);
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_EQ((*devices)[1]->description().name, "cuda:2");
  EXPECT_EQ(told, std::vector<int>{1});
}

TEST_F(OpenDevicesTest, ThatNoneCanBeOpenedIsAnError) {
  fake_.devices = 0;
  Add(9, 0);
  fake_.Fail("cuMemPoolCreate", CUDA_ERROR_UNKNOWN);
  const auto none = OpenCudaDevices(fake_.table(), {});
  EXPECT_TRUE(absl::StrContains(none.status().message(), "cuMemPoolCreate"))
      << none.status();
}

TEST_F(OpenDevicesTest, NoneIsAnError) {
  for (int devices = 0; devices < 2; ++devices) {
    fake_.devices = 0;
    for (int i = 0; i < devices; ++i) Add(10, 0);
    const auto none = OpenCudaDevices(fake_.table(), {});
    EXPECT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace gemmd::gpu
