#include "service/gpu/cuda_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "jit/cache/kernel_cache.h"
#include "service/device/lost.h"
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
  fake_.pool_used = 600;  // Read apart, so that there may be more.
  EXPECT_EQ(device_->FreeBytes(), 1000);
  fake_.Fail("cuMemGetInfo", CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(device_->FreeBytes(), 0) << "of a lost device";
}

TEST_F(CudaDeviceTest, OtherDevicesReadItsMemoryWhereThereIsALink) {
  EXPECT_TRUE(device_->memory().Admit(4).ok());
  EXPECT_TRUE(device_->memory().Admit(FakeDriver::kFarDevice).ok());
  EXPECT_EQ(fake_.admitted, std::vector<CUdevice>{4});
}

TEST_F(CudaDeviceTest, BytesComeBackInAnyPitchWithZerosBetweenLines) {
  auto matrix = *lane_->Allocate(kLayout);
  const std::string bytes = Letters(8 * 13 + kWidth);
  ASSERT_TRUE(Upload(bytes, 13, {0, 9}, *matrix).ok());
  for (const int64_t pitch : {10, 11, 16, 40, 40000}) {
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

// Long lines travel in pieces, each to and from its place in its line.
TEST_F(CudaDeviceTest, APartOfALineMovesAlone) {
  constexpr int64_t kPart = device::kLinePartBytes;
  constexpr int64_t kLong = 2 * kPart + 100;
  auto matrix = *lane_->Allocate({kLayout.type, kLayout.order, 3, kLong / 2});
  ASSERT_TRUE(lane_->Clear(*matrix).ok());
  const std::string bytes = Letters(kLong);
  // From the end, so that nothing is where it would be by chance.
  for (const int64_t at : {2 * kPart, kPart, int64_t{0}}) {
    const int64_t size = std::min(kPart, kLong - at);
    ASSERT_TRUE(
        Upload(bytes.substr(at, size), size, {1, 1, at, size}, *matrix).ok());
    EXPECT_EQ(Download(*matrix, {1, 1, at, size}, size),
              bytes.substr(at, size));
  }
  EXPECT_EQ(Download(*matrix, {1, 1}, kLong), bytes);
  EXPECT_EQ(Download(*matrix, {1, 1, kPart, kPart}, kPart),
            bytes.substr(kPart, kPart));
  for (const int64_t other : {0, 2}) {
    EXPECT_EQ(Download(*matrix, {other, 1}, kLong), std::string(kLong, '\0'));
  }
}

// Every chunk of the ring carries several parts of the matrix.
TEST_F(CudaDeviceTest, StagingMemoryIsRefilledOnlyWhenItsCopyIsDone) {
  constexpr int64_t kLines = 100;  // 1600 bytes by two chunks of 100.
  auto matrix = *lane_->Allocate({kLayout.type, kLayout.order, kLines, 5});
  const std::string bytes = Letters(kLines * kWidth);
  ASSERT_TRUE(Upload(bytes, kWidth, {0, kLines}, *matrix).ok());
  EXPECT_EQ(Download(*matrix, {0, kLines}, kWidth), bytes)
      << "a chunk was filled while the device still read it";
}

TEST_F(CudaDeviceTest, UploadsFollowEachOtherThroughTheSameStaging) {
  auto first = *lane_->Allocate(kLayout);
  auto second = *lane_->Allocate(kLayout);
  const std::string bytes = Letters(9 * kWidth);
  const std::string reversed(bytes.rbegin(), bytes.rend());
  ASSERT_TRUE(Upload(bytes, kWidth, {0, 9}, *first).ok());
  ASSERT_TRUE(Upload(reversed, kWidth, {0, 9}, *second).ok());
  EXPECT_EQ(Download(*first, {0, 9}, kWidth), bytes)
      << "a chunk was filled while the device still read it";
  EXPECT_EQ(Download(*second, {0, 9}, kWidth), reversed);
}

TEST_F(CudaDeviceTest, ALaneKeepsItsStagingUntilTheDeviceHasReadIt) {
  Options options;
  options.staging = {.chunks = 2, .chunk_bytes = 100};
  options.pinned.idle_bytes = 0;  // What is given back is freed at once.
  const auto device = *CudaDevice::Open(fake_.table(), 4, options);
  auto lane = *device->CreateLane();
  auto matrix = *lane->Allocate(kLayout);
  const std::string bytes = Letters(9 * kWidth);
  const absl::Span<const char> piece = bytes;
  ASSERT_TRUE(lane->Upload({{&piece, 1}, kWidth}, {0, 9}, *matrix).ok());
  lane.reset();
  // The fake fails the test when copies find their source gone.
  fake_.Finish();
}

TEST_F(CudaDeviceTest, ADownloadHoldsWhatTheDeviceWroteNotWhatWasThere) {
  auto matrix = *lane_->Allocate(kLayout);
  ASSERT_TRUE(lane_->Clear(*matrix).ok());
  for (const int64_t pitch : {kWidth, int64_t{16}}) {
    const std::string got = Download(*matrix, {0, 9}, pitch);
    EXPECT_EQ(got, std::string(got.size(), '\0'))
        << "the copy was not waited for, pitch " << pitch;
  }
  EXPECT_EQ(Download(*matrix, {3, 1}, kWidth), std::string(kWidth, '\0'))
      << "the copy of one line was not waited for";
}

TEST_F(CudaDeviceTest, EveryCallBindsTheContextToItsThread) {
  auto matrix = *lane_->Allocate(kLayout);
  // The fake fails the test when it is called without a context.
  const auto in_another_thread = [](const std::function<void()>& work) {
    std::thread(work).join();
  };
  in_another_thread([&] { EXPECT_TRUE(lane_->Clear(*matrix).ok()); });
  in_another_thread([&] {
    EXPECT_TRUE(Upload(Letters(90), kWidth, {0, 9}, *matrix).ok());
  });
  in_another_thread([&] { Download(*matrix, {0, 9}, kWidth); });
  in_another_thread([&] { EXPECT_TRUE(lane_->Synchronize().ok()); });
  in_another_thread([&] { EXPECT_TRUE(device_->Load({}, {}).ok()); });
  in_another_thread([&] { EXPECT_TRUE(device_->CreateLane().ok()); });
  in_another_thread([&] { EXPECT_TRUE(device_->Probe().ok()); });
  in_another_thread([&] { EXPECT_FALSE(device_->ImportMemory({}).ok()); });
  in_another_thread([&] { EXPECT_GT(device_->FreeBytes(), 0); });
  in_another_thread([&] { EXPECT_TRUE(lane_->Allocate(kLayout).ok()); });
  in_another_thread([&] { matrix.reset(); });
  in_another_thread([&] { lane_.reset(); });
}

TEST_F(CudaDeviceTest, ClearLeavesZeros) {
  auto matrix = *lane_->Allocate(kLayout);
  ASSERT_TRUE(lane_->Clear(*matrix).ok());
  EXPECT_EQ(Download(*matrix, {0, 9}, kWidth), std::string(90, '\0'));
}

TEST_F(CudaDeviceTest, TriesOnceMoreWhenMemoryIsFull) {
  fake_.Fail("cuMemAllocFromPoolAsync", CUDA_ERROR_OUT_OF_MEMORY);
  fake_.Forget();
  auto matrix = lane_->Allocate(kLayout);
  EXPECT_TRUE(matrix.ok());
  EXPECT_EQ(fake_.pool_threshold, UINT64_MAX) << "until then it keeps all";
  EXPECT_EQ(fake_.names(), (std::vector<std::string>{
                               "cuMemAllocFromPoolAsync", "cuStreamSynchronize",
                               "cuMemPoolTrimTo", "cuMemAllocFromPoolAsync"}))
      << "what is freed is idle once its stream has come to it";
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
  ASSERT_TRUE(lane_->Synchronize().ok());
  ASSERT_TRUE(other->Clear(*matrix).ok());
  ASSERT_TRUE(other->Clear(*matrix).ok());
  const uintptr_t guest = fake_.calls().back().stream;
  fake_.Forget();
  matrix.reset();
  const std::vector<std::string> expected = {
      "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy",
      "cuMemFreeAsync"};
  ASSERT_EQ(fake_.names(), expected);
  const auto& calls = fake_.calls();
  EXPECT_EQ(calls[1].stream, guest);
  EXPECT_EQ(calls[2].stream, calls[4].stream) << "the stream that frees waits";
  EXPECT_NE(calls[4].stream, guest);
  EXPECT_EQ(calls[2].object, calls[1].object) << "for what was recorded";
  // Before the other lane has cleared anything: the fake fails the test when
  // it clears memory that is gone.
  ASSERT_TRUE(lane_->Synchronize().ok());
}

TEST_F(CudaDeviceTest, FreeingWaitsItselfWhereAnEventIsNotToBeHad) {
  auto other = *device_->CreateLane();
  auto matrix = *lane_->Allocate(kLayout);
  ASSERT_TRUE(lane_->Synchronize().ok());
  ASSERT_TRUE(other->Clear(*matrix).ok());
  fake_.Fail("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
  matrix.reset();
  // The fake fails the test when the other lane clears memory that is gone.
  ASSERT_TRUE(lane_->Synchronize().ok());
  ASSERT_TRUE(other->Synchronize().ok());
}

// What such a download had would be another client's.
TEST_F(CudaDeviceTest, ADownloadThatFailedIsAnError) {
  auto matrix = *lane_->Allocate(kLayout);
  for (const char* function : {"cuMemcpyDtoHAsync", "cuStreamSynchronize"}) {
    fake_.Fail(function, CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_TRUE(
        device::IsLost(lane_->Download(*matrix, {0, 1}, kWidth).status()))
        << function;
  }
}

TEST_F(CudaDeviceTest, MemoryIsFreedInTheOrderOfTheStreamThatAllocatedIt) {
  auto matrix = *lane_->Allocate(kLayout);
  const uintptr_t home = fake_.calls().back().stream;
  ASSERT_NE(home, 0u);
  matrix.reset();
  ASSERT_EQ(fake_.calls().back().function, "cuMemFreeAsync");
  EXPECT_EQ(fake_.calls().back().stream, home);
}

TEST_F(CudaDeviceTest, FreeingDoesNotWaitForItsOwnLane) {
  auto matrix = *lane_->Allocate(kLayout);
  ASSERT_TRUE(lane_->Clear(*matrix).ok());
  fake_.Forget();
  matrix.reset();
  EXPECT_EQ(fake_.names(), std::vector<std::string>{"cuMemFreeAsync"});
}

TEST_F(CudaDeviceTest, ReportsWorkThatFailedLater) {
  fake_.Fail("cuStreamSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS);
  const absl::Status status = lane_->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(device::IsLost(status));
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
  plan.shared_memory_bytes -= 1025;
  compiled.static_shared_memory_bytes = 1024;
  EXPECT_TRUE(device_->Load(compiled, plan).ok());
  compiled.static_shared_memory_bytes = 1025;
  EXPECT_FALSE(device_->Load(compiled, plan).ok());
}

TEST_F(CudaDeviceTest, RefusesClustersThatFindNoRoom) {
  jit::CompiledKernel compiled;
  jit::Plan plan;
  plan.config.cluster = 16;
  EXPECT_TRUE(device_->Load(compiled, plan).ok());
  fake_.largest_cluster = 8;
  const auto kernel = device_->Load(compiled, plan);
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(kernel.status().message().find("clusters of 16 CTAs"),
            absl::string_view::npos);
  plan.config.cluster = 8;
  EXPECT_TRUE(device_->Load(compiled, plan).ok());
}

TEST_F(CudaDeviceTest, ProbeSeesADeviceThatForgets) {
  EXPECT_TRUE(device_->Probe().ok());
  fake_.memory_is_broken = true;
  EXPECT_TRUE(device::IsLost(device_->Probe()));
  fake_.memory_is_broken = false;
  EXPECT_TRUE(device_->Probe().ok());
  fake_.downloads_are_lost = true;
  EXPECT_TRUE(device::IsLost(device_->Probe()));
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
