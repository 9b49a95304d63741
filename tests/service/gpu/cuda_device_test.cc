#include "service/gpu/cuda_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "jit/cache/kernel_cache.h"
#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

constexpr jit::MatrixLayout kLayout = {jit::DataType::kBf16,
                                       jit::Order::kRowMajor, 9, 5};
constexpr int64_t kWidth = 10;  // Bytes of a line; 16 on the device.

std::string Letters(int64_t size) {
  std::string bytes;
  for (int64_t i = 0; i < size; ++i) {
    bytes += static_cast<char>('a' + i * 7 % 26);
  }
  return bytes;
}

class CudaDeviceTest : public testing::Test {
 protected:
  CudaDeviceTest() {
    Options options;
    options.staging = {.chunks = 2, .chunk_bytes = 100};
    device_ = *CudaDevice::Open(fake_.table(), 3, options);
    lane_ = *device_->CreateLane();
  }

  absl::Status Upload(const std::string& bytes, int64_t pitch,
                      device::LineRange lines, device::Matrix& to) {
    const absl::Span<const char> pieces[] = {
        absl::MakeConstSpan(bytes).subspan(0, bytes.size() / 3),
        absl::MakeConstSpan(bytes).subspan(bytes.size() / 3)};
    return lane_->Upload({pieces, pitch}, lines, to);
  }

  std::string Download(const device::Matrix& from, device::LineRange lines,
                       int64_t pitch) {
    const auto buffer = lane_->Download(from, lines, pitch);
    if (!buffer.ok()) return buffer.status().ToString();
    const absl::Span<char> bytes = (*buffer)->bytes();
    return std::string(bytes.data(), bytes.size());
  }

  FakeDriver fake_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<device::Lane> lane_;
};

TEST_F(CudaDeviceTest, DescribesItself) {
  const device::Description& description = device_->description();
  EXPECT_EQ(description.name, "cuda:3");
  EXPECT_EQ(description.product, "Fake Hopper");
  EXPECT_EQ(description.driver, "13.0");
  EXPECT_EQ(description.memory_bytes, int64_t{80} << 30);
  EXPECT_EQ(description.properties.multiprocessors, 132);
  EXPECT_EQ(description.properties.shared_memory_bytes, 232448);
}

TEST_F(CudaDeviceTest, IdleMemoryOfThePoolIsFree) {
  fake_.free_bytes = 1000;
  fake_.pool_reserved = 500;
  fake_.pool_used = 200;
  EXPECT_EQ(device_->FreeBytes(), 1300);
}

TEST_F(CudaDeviceTest, BytesComeBackInAnyPitchWithZerosBetweenLines) {
  auto matrix = *lane_->Allocate(kLayout);
  const std::string bytes = Letters(8 * 13 + kWidth);
  ASSERT_TRUE(Upload(bytes, 13, {0, 9}, *matrix).ok());
  for (const int64_t pitch : {10, 11, 16, 40}) {
    std::string expected(static_cast<size_t>(8 * pitch + kWidth), '\0');
    for (int64_t line = 0; line < 9; ++line) {
      expected.replace(static_cast<size_t>(line * pitch), kWidth, bytes,
                       static_cast<size_t>(line * 13), kWidth);
    }
    EXPECT_EQ(Download(*matrix, {0, 9}, pitch), expected) << pitch;
  }
}

TEST_F(CudaDeviceTest, LinesMoveInRanges) {
  auto matrix = *lane_->Allocate(kLayout);
  const std::string bytes = Letters(9 * kWidth);
  ASSERT_TRUE(Upload(bytes.substr(4 * kWidth), kWidth, {4, 5}, *matrix).ok());
  ASSERT_TRUE(
      Upload(bytes.substr(0, 4 * kWidth), kWidth, {0, 4}, *matrix).ok());
  EXPECT_EQ(Download(*matrix, {0, 9}, kWidth), bytes);
  EXPECT_EQ(Download(*matrix, {2, 3}, kWidth),
            bytes.substr(2 * kWidth, 3 * kWidth));
  EXPECT_EQ(Download(*matrix, {8, 1}, kWidth), bytes.substr(8 * kWidth));
}

TEST_F(CudaDeviceTest, ClearLeavesZeros) {
  auto matrix = *lane_->Allocate(kLayout);
  ASSERT_TRUE(lane_->Clear(*matrix).ok());
  EXPECT_EQ(Download(*matrix, {0, 9}, kWidth), std::string(90, '\0'));
}

TEST_F(CudaDeviceTest, TriesOnceMoreWhenMemoryIsFull) {
  fake_.Fail("cuMemAllocFromPoolAsync", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(lane_->Allocate(kLayout).ok());
  EXPECT_EQ(fake_.CountOf("cuMemPoolTrimTo"), 1);
}

TEST_F(CudaDeviceTest, SaysHowMuchMemoryWasAskedFor) {
  fake_.Fail("cuMemAllocFromPoolAsync", CUDA_ERROR_OUT_OF_MEMORY, 2);
  const auto matrix = lane_->Allocate(kLayout);
  EXPECT_EQ(matrix.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(matrix.status().message().find("144 bytes"),
            absl::string_view::npos)
      << matrix.status();
}

TEST_F(CudaDeviceTest, FreeingWaitsForOtherLanesThatUsedTheMatrix) {
  auto other = *device_->CreateLane();
  auto matrix = *lane_->Allocate(kLayout);
  ASSERT_TRUE(other->Clear(*matrix).ok());
  ASSERT_TRUE(other->Clear(*matrix).ok());
  fake_.Forget();
  matrix.reset();
  const std::vector<std::string> expected = {
      "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy",
      "cuMemFreeAsync"};
  EXPECT_EQ(fake_.calls(), expected);
}

TEST_F(CudaDeviceTest, FreeingDoesNotWaitForItsOwnLane) {
  auto matrix = *lane_->Allocate(kLayout);
  ASSERT_TRUE(lane_->Clear(*matrix).ok());
  fake_.Forget();
  matrix.reset();
  EXPECT_EQ(fake_.calls(), std::vector<std::string>{"cuMemFreeAsync"});
}

TEST_F(CudaDeviceTest, MultipliesWithWhatItLoaded) {
  jit::CompiledKernel compiled;
  compiled.cubin = "cubin";
  jit::Problem problem;
  problem.m = 9;
  problem.n = problem.k = 5;
  jit::Plan plan;
  plan.depth = 5;
  plan.threads = 128;
  plan.grid = 2;
  plan.x = plan.y = plan.d = {.width = 5, .lines = 9, .pitch_bytes = 16};
  const auto kernel = device_->Load(compiled, plan);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  auto a = *lane_->Allocate(problem.a());
  auto b = *lane_->Allocate(problem.b());
  auto d = *lane_->Allocate(problem.d());
  ASSERT_TRUE(lane_
                  ->Multiply(problem, plan, **kernel,
                             {.a = a.get(), .b = b.get(), .d = d.get()})
                  .ok());
  ASSERT_EQ(fake_.launches.size(), 1u);
  EXPECT_EQ(fake_.launches[0].config.gridDimX, 2u);
  EXPECT_TRUE(lane_->Synchronize().ok());
}

TEST_F(CudaDeviceTest, ReportsWorkThatFailedLater) {
  fake_.Fail("cuStreamSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS);
  const absl::Status status = lane_->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("Device lost"), absl::string_view::npos);
}

TEST_F(CudaDeviceTest, RefusesCubinsThatCannotRunHere) {
  jit::CompiledKernel compiled;
  compiled.name = "gemm_x";
  fake_.Fail("cuModuleLoadData", CUDA_ERROR_NO_BINARY_FOR_GPU);
  auto kernel = device_->Load(compiled, {});
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(kernel.status().message().find("gemm_x"), absl::string_view::npos);

  fake_.symbols.clear();
  kernel = device_->Load(compiled, {});
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kFailedPrecondition);

  fake_.symbols = {"gemmd_kernel"};
  jit::Plan plan;
  plan.shared_memory_bytes = 232449;
  kernel = device_->Load(compiled, plan);
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(kernel.status().message().find("232449"), absl::string_view::npos);
}

TEST_F(CudaDeviceTest, ProbeSeesADeviceThatForgets) {
  EXPECT_TRUE(device_->Probe().ok());
  fake_.memory_is_broken = true;
  EXPECT_EQ(device_->Probe().code(), absl::StatusCode::kInternal);
}

TEST_F(CudaDeviceTest, ProbeWorksWhenMemoryIsUsedUp) {
  fake_.Fail("cuMemAllocFromPoolAsync", CUDA_ERROR_OUT_OF_MEMORY, 1000);
  fake_.Fail("cuMemHostAlloc", CUDA_ERROR_OUT_OF_MEMORY, 1000);
  EXPECT_TRUE(device_->Probe().ok());
}

TEST_F(CudaDeviceTest, LeaksNothing) {
  auto matrix = *lane_->Allocate(kLayout);
  ASSERT_TRUE(Upload(Letters(90), kWidth, {0, 9}, *matrix).ok());
  auto buffer = *lane_->Download(*matrix, {0, 9}, kWidth);
  auto kernel = device_->Load({}, {});
  ASSERT_TRUE(kernel.ok());
  lane_.reset();  // Before the matrix and the response made from it.
  matrix.reset();
  buffer.reset();
  kernel->reset();
  device_.reset();
  EXPECT_EQ(fake_.live(), 0u);
}

TEST(OpenCudaDevicesTest, WithoutADriverIsNotFound) {
  Options options;
  options.driver_library = "libgemmd-no-such-driver.so.1";
  EXPECT_EQ(OpenCudaDevices(options).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gemmd::gpu
