// What a lane gives its kernels: the values of the epilogue, and workspaces in
// the state that kernels want.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "jit/plan/form.h"
#include "jit/plan/launch_arithmetic.h"
#include "service/gpu/cuda_device.h"
#include "service/gpu/cuda_lane.h"
#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

uint64_t AddressOf(const std::unique_ptr<device::Matrix>& matrix) {
  return static_cast<const CudaMatrix&>(*matrix).pointer();
}

template <typename T>
uint64_t AddressOf(T* at) {
  return reinterpret_cast<uint64_t>(at);
}

class LaneOperandsTest : public testing::Test {
 protected:
  LaneOperandsTest() {
    fake_.symbols = {"gemmd_kernel", "gemmd_line_bits"};
    problem_.m = 9;
    problem_.n = 7;
    problem_.k = 5;
    plan_.rows = 9;
    plan_.columns = 7;
    plan_.depth = 5;
    plan_.stages = 1;
    plan_.threads = 128;
    plan_.grid = 2;
    plan_.x = plan_.y = plan_.d =
        plan_.metadata = {.width = 5, .lines = 9, .pitch_bytes = 16};
    operands_ = {.a = a_.get(), .b = b_.get(), .d = d_.get()};
  }

  std::unique_ptr<device::Matrix> New(const jit::MatrixLayout& layout = {
                                          .rows = 9, .columns = 5}) {
    return *lane_->Allocate(layout);
  }
  absl::Status Multiply() {
    kernels_.push_back(*device_->Load({.cubin = "cubin"}, plan_));
    return lane_->Multiply(problem_, plan_, *kernels_.back(), operands_);
  }
  absl::Status MultiplyGroup(device::Lane& lane, size_t members) {
    kernels_.push_back(*device_->Load({.cubin = "cubin"}, plan_));
    return lane.MultiplyGroup(std::vector<device::GroupMember>(
                                  members, {&problem_, &plan_, operands_}),
                              *kernels_.back());
  }

  FakeDriver fake_;
  const std::unique_ptr<CudaDevice> device_ =
      *CudaDevice::Open(fake_.table(), 0, {});
  const std::unique_ptr<device::Lane> lane_ = *device_->CreateLane();
  const std::unique_ptr<device::Matrix> a_ = New(), b_ = New(), d_ = New();
  std::vector<std::unique_ptr<device::Kernel>> kernels_;
  jit::Problem problem_;
  jit::Plan plan_;
  device::Operands operands_;
};

TEST_F(LaneOperandsTest, EachValueOfTheEpilogueHasItsPlace) {
  const auto metadata = New(), bias = New(), a_scale = New(), b_scale = New(),
             d_scale = New(), auxiliary = New(), amax = New();
  operands_.metadata = metadata.get();
  operands_.bias = bias.get();
  operands_.a_scale = a_scale.get();
  operands_.b_scale = b_scale.get();
  operands_.d_scale = d_scale.get();
  operands_.auxiliary = auxiliary.get();
  operands_.amax = amax.get();
  plan_.family.instruction.sparse = plan_.family.epilogue.auxiliary = true;
  ASSERT_TRUE(Multiply().ok());
  const auto arguments = fake_.launches.back().argument<Arguments>();
  EXPECT_EQ(fake_.MapOf(arguments.metadata.bytes).pointer, AddressOf(metadata));
  EXPECT_EQ(fake_.MapOf(arguments.auxiliary.bytes).pointer,
            AddressOf(auxiliary));
  EXPECT_EQ(AddressOf(arguments.epilogue.bias), AddressOf(bias));
  EXPECT_EQ(AddressOf(arguments.epilogue.row_scale), AddressOf(a_scale));
  EXPECT_EQ(AddressOf(arguments.epilogue.column_scale), AddressOf(b_scale));
  EXPECT_EQ(AddressOf(arguments.epilogue.d_scale), AddressOf(d_scale));
  EXPECT_EQ(AddressOf(arguments.epilogue.amax), AddressOf(amax));
}

// Kernels raise it.
TEST_F(LaneOperandsTest, TheGreatestMagnitudeIsZeroBeforeEachProduct) {
  const auto amax = New({.type = jit::DataType::kF32, .rows = 1, .columns = 1});
  operands_.amax = amax.get();
  std::vector<unsigned> found;
  fake_.run_kernel = [&](const FakeDriver::Launch& launch) {
    unsigned* const at = launch.argument<Arguments>().epilogue.amax;
    found.push_back(std::exchange(*at, 7));
  };
  ASSERT_TRUE(Multiply().ok());
  ASSERT_TRUE(Multiply().ok());
  ASSERT_TRUE(lane_->Synchronize().ok());
  EXPECT_EQ(found, (std::vector<unsigned>{0, 0}));
}

// Kernels leave them as they found them.
TEST_F(LaneOperandsTest, FlagsOfUnitsThatAreSharedOutAreZeroAtFirst) {
  plan_.config.balanced = true;
  plan_.balanced_units = 1;
  for (const int grid : {2, 20}) {
    plan_.grid = grid;
    const auto bytes = static_cast<size_t>(jit::PassFlagsBytes(plan_));
    ASSERT_GT(bytes, 0u);
    std::string flags;
    fake_.run_kernel = [&](const FakeDriver::Launch& launch) {
      const auto* const at = launch.argument<Arguments>().balance.flags;
      flags.assign(reinterpret_cast<const char*>(at), bytes);
    };
    ASSERT_TRUE(Multiply().ok());
    ASSERT_TRUE(lane_->Synchronize().ok());
    EXPECT_EQ(flags, std::string(bytes, '\0')) << grid;
  }
}

TEST_F(LaneOperandsTest, BitsOfLinesHaveAWorkspace) {
  plan_.family.epilogue.exclusive_or = true;
  plan_.line_bits_grid = 1;
  plan_.line_bits_bytes = 4 * 18;
  ASSERT_TRUE(Multiply().ok());
  const auto counted = fake_.launches[0].argument<LineBitsArguments>();
  EXPECT_GE(fake_.memory.BytesAt(counted.x.to), 4u * 18);
}

TEST_F(LaneOperandsTest, MetadataIsDerivedFromBehindTheValues) {
  const jit::MatrixLayout stored = {.rows = 64, .columns = 64, .sparse = true};
  const auto from = New(stored);
  const auto to = New(jit::FormLayout(stored, jit::Form::kMetadata));
  fake_.argument_bytes["gemmd_kernel"] = sizeof(PrepareArguments);
  const auto kernel = *device_->Load({}, {});
  ASSERT_TRUE(lane_->Prepare(jit::Form::kMetadata, *kernel, *from, *to).ok());
  const auto arguments = fake_.launches[0].argument<PrepareArguments>();
  EXPECT_EQ(AddressOf(arguments.from), AddressOf(from) + 64);
  EXPECT_EQ(AddressOf(arguments.to), AddressOf(to));
}

TEST_F(LaneOperandsTest, ClearsTheLinesThatItIsToldTo) {
  const std::string bytes(90, 'x');
  const absl::Span<const char> piece = bytes;
  ASSERT_TRUE(lane_->Upload({{&piece, 1}, 10}, {0, 9}, *a_).ok());
  ASSERT_TRUE(lane_->ClearLines(*a_, {2, 3}).ok());
  const auto got = *lane_->Download(*a_, {0, 9}, 10);
  EXPECT_EQ(
      std::string(got->bytes().data(), 90),
      std::string(20, 'x') + std::string(30, '\0') + std::string(40, 'x'));
}

TEST_F(LaneOperandsTest, AGroupIsAsLongAsAllItsProducts) {
  fake_.argument_bytes["gemmd_kernel"] = sizeof(GroupedArguments);
  const auto other = *device_->CreateLane();
  plan_.config.grouped = true;
  plan_.predicted_cycles = 250e3;
  for (const size_t members : {1, 2}) {
    ASSERT_TRUE(MultiplyGroup(*lane_, members).ok());
    fake_.Forget();
    ASSERT_TRUE(MultiplyGroup(*other, members).ok());
    EXPECT_EQ(fake_.CountOf("cuStreamWaitEvent"), members == 2 ? 1 : 0)
        << members;
  }
}

// The fake fails the test when the arguments find no room.
TEST_F(LaneOperandsTest, ALargerGroupHasMoreRoom) {
  fake_.argument_bytes["gemmd_kernel"] = sizeof(GroupedArguments);
  plan_.config.grouped = true;
  for (const size_t members : {1, 8, 4, 16}) {
    ASSERT_TRUE(MultiplyGroup(*lane_, members).ok());
  }
  ASSERT_TRUE(lane_->Synchronize().ok());
}

// The fake fails the test when it is called without a context.
TEST_F(LaneOperandsTest, WorkMayComeFromAnyThread) {
  const jit::MatrixLayout stored = {jit::DataType::kS8, jit::Order::kRowMajor,
                                    16, 16};
  const auto from = New(stored);
  const auto to = New(jit::FormLayout(stored, jit::Form::kTransposed));
  const auto kernel = *device_->Load({.cubin = "cubin"}, plan_);
  const device::Band band = {.product = {&problem_, &plan_, operands_}};
  const std::function<absl::Status()> works[] = {
      [&] { return lane_->Multiply(problem_, plan_, *kernel, operands_); },
      [&] {
        return lane_->MultiplyInBands({&band, 1}, *kernel).status();
      },
      [&] { return lane_->CopyFromPeer(*a_, *b_); },
      [&] {
        fake_.argument_bytes["gemmd_kernel"] = sizeof(PrepareArguments);
        return lane_->Prepare(jit::Form::kTransposed, *kernel, *from, *to);
      },
      [&] {
        fake_.argument_bytes["gemmd_kernel"] = sizeof(GroupedArguments);
        const device::GroupMember member = {&problem_, &plan_, operands_};
        return lane_->MultiplyGroup({&member, 1}, *kernel);
      }};
  for (const auto& work : works) {
    for (int i = 0; i < 2; ++i) {  // The first time it allocates.
      std::thread([&] { EXPECT_TRUE(work().ok()); }).join();
    }
  }
}

}  // namespace
}  // namespace gemmd::gpu
