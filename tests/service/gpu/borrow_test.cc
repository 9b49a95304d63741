// Matrices that lie in device memory of a client's: which are used there, and
// for how long.
#include <gtest/gtest.h>

#include "service/gpu/cuda_device.h"
#include "service/gpu/cuda_matrix.h"
#include "tests/service/gpu/fake_driver.h"
#include "tests/service/gpu/host_region.h"
#include "tests/service/gpu/imported_region.h"

namespace gemmd::gpu {
namespace {

constexpr int64_t kBytes = FakeExports::kUnit;

class BorrowTest : public testing::Test {
 protected:
  // Lines of 16 bytes.
  static constexpr jit::MatrixLayout kLayout = {.rows = 4, .columns = 8};

  bool Borrows(const jit::MatrixLayout& layout, int64_t pitch_bytes,
               int64_t offset = 0) {
    const auto matrix = lane_->Borrow({region_, offset}, layout, pitch_bytes);
    if (matrix == nullptr) return false;
    EXPECT_EQ(static_cast<const CudaMatrix&>(*matrix).pointer(),
              reinterpret_cast<CUdeviceptr>(region_->bytes().data() + offset));
    return true;
  }

  FakeDriver fake_;
  const std::unique_ptr<CudaDevice> device_ =
      *CudaDevice::Open(fake_.table(), 0, {});
  const std::unique_ptr<device::Lane> lane_ = *device_->CreateLane();
  const jit::UniqueFd fd_ = fake_.exports.Descriptor({.bytes = kBytes});
  std::shared_ptr<const device::Region> region_ =
      std::make_shared<ImportedRegion>(
          *device_->ImportMemory({.fd = fd_.get(), .bytes = kBytes}));
};

TEST_F(BorrowTest, WhatLiesAsOnesOwnIsUsedWhereItIs) {
  EXPECT_TRUE(Borrows(kLayout, 16));
  EXPECT_TRUE(Borrows(kLayout, 16, 32));
  EXPECT_FALSE(Borrows(kLayout, 32));
  EXPECT_FALSE(Borrows(kLayout, 16, 8));
  // Of one line there is no next one.
  EXPECT_TRUE(Borrows({.rows = 1, .columns = 8}, 48));
}

// Kernels would write between its lines, and read bits behind their ends.
TEST_F(BorrowTest, WhatHasPaddingOnTheDeviceIsNotUsed) {
  EXPECT_FALSE(Borrows({.rows = 4, .columns = 7}, 16));
  EXPECT_FALSE(
      Borrows({.type = jit::DataType::kB1, .rows = 4, .columns = 125}, 16));
}

// Its address is none of the device's.
TEST_F(BorrowTest, MemoryOfTheHostIsNotUsed) {
  region_ = std::make_shared<HostRegion>(std::string(4096, '.'), nullptr);
  const char* const start = region_->bytes().data();
  const auto address = reinterpret_cast<uintptr_t>(start);
  EXPECT_FALSE(
      Borrows(kLayout, 16, static_cast<int64_t>((16 - address % 16) % 16)));
}

// It would be unmapped while the device reads it.
TEST_F(BorrowTest, MemoryStaysMappedUntilItIsCopied) {
  const auto matrix = *lane_->Allocate(kLayout);
  const absl::Span<const char> piece = region_->bytes().subspan(8, 64);
  const std::weak_ptr<const device::Region> watched = region_;
  ASSERT_TRUE(
      lane_->Upload({{&piece, 1}, 16, std::move(region_)}, {0, 4}, *matrix)
          .ok());
  region_ = nullptr;
  EXPECT_FALSE(watched.expired());
  ASSERT_TRUE(lane_->Synchronize().ok());
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace gemmd::gpu
