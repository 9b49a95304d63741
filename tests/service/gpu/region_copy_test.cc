// Operands and results in memory that clients share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "service/gpu/cuda_device.h"
#include "tests/service/gpu/fake_driver.h"
#include "tests/service/gpu/host_region.h"

namespace gemmd::gpu {
namespace {

using ::testing::Contains;
using ::testing::Not;

std::string Letters(size_t count) {
  std::string letters(count, '\0');
  for (size_t i = 0; i < count; ++i) letters[i] = 'a' + i * 7 % 26;
  return letters;
}

class RegionCopyTest : public testing::Test {
 protected:
  // Lines of 16 bytes, as they lie on the device.
  static constexpr jit::MatrixLayout kWhole = {
      .type = jit::DataType::kBf16, .rows = 5, .columns = 8};
  // Lines of 14, which have padding there.
  static constexpr jit::MatrixLayout kPadded = {
      .type = jit::DataType::kBf16, .rows = 5, .columns = 7};

  std::shared_ptr<HostRegion> Region(std::string bytes, bool pinned = true) {
    return std::make_shared<HostRegion>(std::move(bytes),
                                        pinned ? device_.get() : nullptr);
  }

  // From `offset` of the region on, lines `pitch_bytes` apart, to the device
  // and back, tight.
  std::string ThereAndBack(const jit::MatrixLayout& layout,
                           std::shared_ptr<const device::Region> region,
                           int64_t offset, int64_t pitch_bytes) {
    auto matrix = *lane_->Allocate(layout);
    const absl::Span<const char> pieces[] = {region->bytes().subspan(
        offset, (layout.lines() - 1) * pitch_bytes + layout.width_bytes())};
    const absl::Status uploaded = lane_->Upload(
        {pieces, pitch_bytes, std::move(region)}, {0, layout.lines()}, *matrix);
    EXPECT_TRUE(uploaded.ok()) << uploaded;
    auto back =
        lane_->Download(*matrix, {0, layout.lines()}, layout.width_bytes());
    EXPECT_TRUE(back.ok()) << back.status();
    return std::string((*back)->bytes().data(), (*back)->bytes().size());
  }

  static std::string Lines(const std::string& bytes, int64_t offset,
                           int64_t pitch_bytes,
                           const jit::MatrixLayout& layout) {
    std::string lines;
    for (int64_t i = 0; i < layout.lines(); ++i) {
      lines += bytes.substr(offset + i * pitch_bytes, layout.width_bytes());
    }
    return lines;
  }

  FakeDriver fake_;
  const std::unique_ptr<CudaDevice> device_ =
      *CudaDevice::Open(fake_.table(), 0, {});
  const std::unique_ptr<device::Lane> lane_ = *device_->CreateLane();
};

// To the end of the region, beyond which nothing may be touched: the fake fails
// the test where it is.
TEST_F(RegionCopyTest, TheCopyEngineReadsTheLinesWhereTheyAre) {
  for (const int64_t pitch : {16, 18, 48}) {
    const std::string bytes = Letters(3 + 4 * pitch + 16);
    fake_.Forget();
    EXPECT_EQ(ThereAndBack(kWhole, Region(bytes), 3, pitch),
              Lines(bytes, 3, pitch, kWhole));
    EXPECT_THAT(fake_.names(), Not(Contains("cuEventRecord")))
        << "a staging chunk was used";
  }
}

TEST_F(RegionCopyTest, WhatIsPaddedOnTheDeviceIsStaged) {
  const std::string bytes = Letters(4 * 20 + 14);
  fake_.Forget();
  EXPECT_EQ(ThereAndBack(kPadded, Region(bytes), 0, 20),
            Lines(bytes, 0, 20, kPadded));
  EXPECT_THAT(fake_.names(), Contains("cuEventRecord"));
}

// Such bits would count as elements of k.
TEST_F(RegionCopyTest, BitsBehindALineAreZeroOnTheDevice) {
  constexpr jit::MatrixLayout kBits = {
      .type = jit::DataType::kB1, .rows = 2, .columns = 125};
  ASSERT_EQ(kBits.pitch_bytes(), kBits.width_bytes());
  const std::string ones(32, '\xff');
  std::string expected = ones;
  expected[15] = expected[31] = '\x1f';
  EXPECT_EQ(ThereAndBack(kBits, Region(ones), 0, 16), expected);
}

TEST_F(RegionCopyTest, WhatIsNotPinnedIsStaged) {
  const std::string bytes = Letters(4 * 18 + 16);
  fake_.Forget();
  EXPECT_EQ(ThereAndBack(kWhole, Region(bytes, /*pinned=*/false), 0, 18),
            Lines(bytes, 0, 18, kWhole));
  EXPECT_THAT(fake_.names(), Contains("cuEventRecord"));
}

// Whatever becomes of the client: a copy under way would read memory that is
// gone, which the fake tells.
TEST_F(RegionCopyTest, ARegionStaysUntilTheCopyIsDone) {
  auto region = Region(Letters(80));
  const std::weak_ptr<const device::Region> watched = region;
  auto matrix = *lane_->Allocate(kWhole);
  {
    const absl::Span<const char> pieces[] = {region->bytes()};
    ASSERT_TRUE(
        lane_->Upload({pieces, 16, std::move(region)}, {0, 5}, *matrix).ok());
  }
  EXPECT_FALSE(watched.expired());
  ASSERT_TRUE(lane_->Synchronize().ok());
  EXPECT_TRUE(watched.expired());
}

TEST_F(RegionCopyTest, ResultsAreWrittenAndNothingBetweenThem) {
  for (const jit::MatrixLayout& layout : {kWhole, kPadded}) {
    for (const bool pinned : {true, false}) {
      const int64_t width = layout.width_bytes();
      for (const int64_t pitch : {width, width + 3, width + 32}) {
        const std::string elements = Letters(5 * width);
        auto matrix = *lane_->Allocate(layout);
        const absl::Span<const char> pieces[] = {elements};
        ASSERT_TRUE(lane_->Upload({pieces, width}, {0, 5}, *matrix).ok());
        // The last line ends where the region does.
        const size_t size = 7 + 4 * pitch + width;
        const auto region = Region(std::string(size, '.'), pinned);
        const absl::Status done =
            lane_->DownloadTo({region, 7}, *matrix, {0, 5}, pitch);
        ASSERT_TRUE(done.ok()) << done;
        std::string expected(size, '.');
        for (int64_t i = 0; i < 5; ++i) {
          expected.replace(7 + i * pitch, width, elements, i * width, width);
        }
        EXPECT_EQ(std::string(region->bytes().data(), size), expected);

        const auto part = Region(std::string(2 * pitch, '.'), pinned);
        const absl::Status some =
            lane_->DownloadTo({part, 0}, *matrix, {3, 2}, pitch);
        ASSERT_TRUE(some.ok()) << some;
        expected.assign(2 * pitch, '.');
        for (int64_t i = 0; i < 2; ++i) {
          expected.replace(i * pitch, width, elements, (i + 3) * width, width);
        }
        EXPECT_EQ(std::string(part->bytes().data(), 2 * pitch), expected);
      }
    }
  }
}

TEST_F(RegionCopyTest, AResultThatWasNotWrittenIsAnError) {
  auto matrix = *lane_->Allocate(kWhole);
  for (const bool pinned : {true, false}) {
    const auto region = Region(std::string(80, '.'), pinned);
    for (const char* function : {"cuMemcpyDtoHAsync", "cuStreamSynchronize"}) {
      fake_.Fail(function, CUDA_ERROR_LAUNCH_FAILED);
      EXPECT_FALSE(lane_->DownloadTo({region, 0}, *matrix, {0, 5}, 16).ok())
          << function;
      fake_.Finish();
    }
  }
}

TEST_F(RegionCopyTest, MemoryThatCannotBePinnedIsAnError) {
  std::string bytes(4096, 'x');
  fake_.Fail("cuMemHostRegister", CUDA_ERROR_OUT_OF_MEMORY);
  const auto pin = device_->PinMemory(absl::MakeSpan(bytes));
  EXPECT_EQ(pin.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(RegionCopyTest, APinIsGivenBack) {
  std::string bytes(4096, 'x');
  { const auto pin = *device_->PinMemory(absl::MakeSpan(bytes)); }
  EXPECT_EQ(fake_.CountOf("cuMemHostUnregister"), 1);
}

}  // namespace
}  // namespace gemmd::gpu
