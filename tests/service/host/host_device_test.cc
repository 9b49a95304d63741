#include "service/host/host_device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "jit/plan/planner.h"

namespace gemmd::host {
namespace {

using jit::DataType;
using jit::MatrixLayout;
using jit::Order;
using Piece = absl::Span<const char>;

constexpr MatrixLayout kLayout = {DataType::kBf16, Order::kRowMajor, 3, 5};

class HostDeviceTest : public testing::Test {
 protected:
  std::unique_ptr<device::Device> device_ =
      CreateHostDevice({.memory_bytes = 1000});
  std::unique_ptr<device::Lane> lane_ = device_->CreateLane().value();
};

std::string Text(device::HostBuffer& buffer) {
  return std::string(buffer.bytes().data(), buffer.bytes().size());
}

TEST_F(HostDeviceTest, MovesMatricesCutAnywhere) {
  const std::string bytes = "0123456789xxABCDEFGHIJyyabcdefghij";
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      const std::vector<Piece> pieces = {
          Piece(bytes.data(), first),
          Piece(bytes.data() + first, second - first),
          Piece(bytes.data() + second, bytes.size() - second)};
      auto matrix = lane_->Allocate(kLayout).value();
      ASSERT_TRUE(lane_->Upload({pieces, 12}, {0, 3}, *matrix).ok());
      auto tight = lane_->Download(*matrix, {0, 3}, 10).value();
      ASSERT_EQ(Text(*tight), "0123456789ABCDEFGHIJabcdefghij");
    }
  }
}

int64_t ResidentBytes() {
  int64_t all_pages = 0;
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> all_pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

// What clients had on the device is not held when they are gone, however small
// things lay between.
TEST_F(HostDeviceTest, MemoryIsGivenBack) {
  const MatrixLayout layout = {DataType::kF32, Order::kRowMajor, 1024, 1024};
  device_ = CreateHostDevice({.memory_bytes = int64_t{1} << 30});
  lane_ = device_->CreateLane().value();
  const int64_t before = ResidentBytes();
  std::vector<std::unique_ptr<char[]>> small;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<device::Matrix>> matrices;
    for (int i = 0; i < 32; ++i) {
      matrices.push_back(lane_->Allocate(layout).value());
      ASSERT_TRUE(lane_->ClearLines(*matrices.back(), {0, 1024}).ok());
      small.push_back(std::make_unique<char[]>(2000));
    }
    EXPECT_GT(ResidentBytes() - before, 120 << 20);
  }
  EXPECT_LT(ResidentBytes() - before, 20 << 20);
}

TEST_F(HostDeviceTest, DownloadPadsWithZerosBetweenLines) {
  auto matrix = lane_->Allocate(kLayout).value();
  const std::string bytes = "0123456789ABCDEFGHIJabcdefghij";
  const Piece piece(bytes);
  ASSERT_TRUE(lane_->Upload({{&piece, 1}, 10}, {0, 3}, *matrix).ok());
  auto padded = lane_->Download(*matrix, {1, 2}, 12).value();
  EXPECT_EQ(Text(*padded), std::string("ABCDEFGHIJ\0\0abcdefghij", 22));
}

TEST_F(HostDeviceTest, SlackBitsBecomeZero) {
  const MatrixLayout bits = {DataType::kB1, Order::kRowMajor, 2, 11};
  auto matrix = lane_->Allocate(bits).value();
  const std::string dirty = "\xff\xff\xff\xff";
  const Piece piece(dirty);
  ASSERT_TRUE(lane_->Upload({{&piece, 1}, 2}, {0, 2}, *matrix).ok());
  auto clean = lane_->Download(*matrix, {0, 2}, 2).value();
  EXPECT_EQ(Text(*clean), "\xff\x07\xff\x07");
}

TEST_F(HostDeviceTest, UploadsARangeOfLines) {
  auto matrix = lane_->Allocate(kLayout).value();
  ASSERT_TRUE(lane_->Clear(*matrix).ok());
  const std::string line = "0123456789";
  const Piece piece(line);
  ASSERT_TRUE(lane_->Upload({{&piece, 1}, 10}, {1, 1}, *matrix).ok());
  auto all = lane_->Download(*matrix, {0, 3}, 10).value();
  EXPECT_EQ(Text(*all), std::string(10, '\0') + line + std::string(10, '\0'));
}

TEST_F(HostDeviceTest, RefusesWhatDoesNotFitAndTakesMemoryBack) {
  const MatrixLayout large = {DataType::kF32, Order::kRowMajor, 10, 16};
  {
    auto matrix = lane_->Allocate(large);
    ASSERT_TRUE(matrix.ok());
    EXPECT_EQ(device_->FreeBytes(), 360);
    const auto second = lane_->Allocate(large);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(second.status().message(),
              "the host device has 360 of 1000 bytes left; 640 were asked for");
  }
  EXPECT_EQ(device_->FreeBytes(), 1000);
  EXPECT_TRUE(lane_->Allocate(large).ok());
}

TEST_F(HostDeviceTest, LoadsACubinAndNothingElse) {
  jit::CompiledKernel compiled;
  compiled.name = "gemm_x";
  const auto refused = device_->Load(compiled, jit::Plan());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  compiled.cubin = "cubin";
  EXPECT_TRUE(device_->Load(compiled, jit::Plan()).ok());
}

// The sum of 2^24 and sixteen ones, of bytes of seventeen ones, and who made
// it.
struct Made {
  device::SumArithmetic arithmetic;
  float sum;
};

Made Multiply(const HostDeviceOptions& options, DataType type) {
  const auto device = CreateHostDevice(options);
  const auto lane = device->CreateLane().value();
  jit::Problem problem = {.m = 1, .n = 1, .k = 17};
  problem.a_type = problem.b_type = type;
  problem.c_type = problem.d_type = DataType::kF32;
  problem.accumulator = jit::DefaultAccumulator(type, type);
  problem.b_order = Order::kColumnMajor;
  std::vector<uint16_t> elements(17, 0x3f80);
  if (type == DataType::kBf16) elements[0] = 0x4580;
  if (type == DataType::kS8) elements.assign(17, 0x0101);
  const Piece piece(reinterpret_cast<const char*>(elements.data()),
                    problem.a().width_bytes());
  auto a = lane->Allocate(problem.a()).value();
  auto b = lane->Allocate(problem.b()).value();
  auto d = lane->Allocate(problem.d()).value();
  EXPECT_TRUE(lane->Upload({{&piece, 1}, 0}, {0, 1}, *a).ok());
  EXPECT_TRUE(lane->Upload({{&piece, 1}, 0}, {0, 1}, *b).ok());
  const jit::Plan plan =
      jit::ChoosePlan(problem, device->description().properties);
  jit::CompiledKernel compiled;
  compiled.cubin = "cubin";
  const auto kernel = device->Load(compiled, plan).value();
  EXPECT_TRUE(lane->Multiply(problem, plan, *kernel,
                             {.a = a.get(), .b = b.get(), .d = d.get()})
                  .ok());
  float sum;
  std::memcpy(&sum, lane->Download(*d, {0, 1}, 4).value()->bytes().data(), 4);
  return {device->ArithmeticOf(plan), sum};
}

TEST(HostArithmeticTest, IsHoppersUnlessToldOrUnknown) {
  using device::SumArithmetic;
  // Beside 2^24 a one is half of the last bit. The tensor core cuts off the
  // last of fifteen, and then the sixteenth, which comes by itself.
  Made made = Multiply({.memory_bytes = 10000}, DataType::kBf16);
  EXPECT_EQ(made.arithmetic, SumArithmetic::kHopper);
  EXPECT_EQ(made.sum, 0x1p24f + 14);
  made = Multiply({.arithmetic = SumArithmetic::kDouble, .memory_bytes = 10000},
                  DataType::kBf16);
  EXPECT_EQ(made.arithmetic, SumArithmetic::kDouble);
  EXPECT_EQ(made.sum, 0x1p24f + 16);
  // Integers are exact, so that the bits are the same.
  made = Multiply({.arithmetic = SumArithmetic::kDouble, .memory_bytes = 10000},
                  DataType::kS8);
  EXPECT_EQ(made.arithmetic, SumArithmetic::kHopper);
  EXPECT_EQ(made.sum, 17);
}

}  // namespace
}  // namespace gemmd::host
