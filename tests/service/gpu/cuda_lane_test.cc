// Products on a lane: which kernel runs, with which memory, in which order.
#include "service/gpu/cuda_lane.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "jit/plan/form.h"
#include "service/device/lost.h"
#include "service/gpu/cuda_device.h"
#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

constexpr int kProductBytes = 200000;  // Of shared memory, of each CTA.

uint64_t AddressOf(const device::Matrix& matrix) {
  return static_cast<const CudaMatrix&>(matrix).pointer();
}

class CudaLaneTest : public testing::Test {
 protected:
  CudaLaneTest() {
    fake_.symbols = {"gemmd_kernel", "gemmd_reduce"};
    problem_.m = 9;
    problem_.n = 7;
    problem_.k = 5;
    problem_.alpha = 3.0f;
    problem_.beta = 0.25f;
    a_ = *lane_->Allocate(problem_.a());
    b_ = *lane_->Allocate(problem_.b());
    c_ = *lane_->Allocate(problem_.c());
    d_ = *lane_->Allocate(problem_.d());
  }

  static jit::Plan MakePlan() {
    jit::Plan plan;
    plan.family.epilogue.reads_c = true;
    plan.rows = 9;
    plan.columns = 7;
    plan.depth = 5;
    plan.stages = 1;
    plan.threads = 128;
    plan.grid = 2;
    plan.shared_memory_bytes = kProductBytes;
    plan.x = plan.y = plan.c =
        plan.d = {.width = 5, .lines = 9, .pitch_bytes = 16};
    return plan;
  }

  static jit::Plan SplitPlan(int64_t partials_bytes) {
    jit::Plan plan = MakePlan();
    plan.config.split_k = true;
    plan.splits = 4;
    plan.reduce_grid = 3;
    plan.partials_bytes = partials_bytes;
    plan.d.type = jit::DataType::kF32;
    return plan;
  }

  absl::Status Multiply(const jit::Plan& plan) {
    return MultiplyOn(*lane_, plan);
  }
  absl::Status MultiplyOn(device::Lane& lane, const jit::Plan& plan) {
    jit::CompiledKernel compiled;
    compiled.cubin = "cubin";
    auto kernel = device_->Load(compiled, plan);
    if (!kernel.ok()) return kernel.status();
    kernels_.push_back(*std::move(kernel));
    return lane.Multiply(
        problem_, plan, *kernels_.back(),
        {.a = a_.get(), .b = b_.get(), .c = c_.get(), .d = d_.get()});
  }

  const FakeDriver::EncodedMap& MapOf(const TensorMap& map) {
    return fake_.MapOf(map.bytes);
  }

  FakeDriver fake_;
  const std::unique_ptr<CudaDevice> device_ =
      *CudaDevice::Open(fake_.table(), 0, {});
  std::unique_ptr<device::Lane> lane_ = *device_->CreateLane();
  jit::Problem problem_;
  std::vector<std::unique_ptr<device::Kernel>> kernels_;
  std::unique_ptr<device::Matrix> a_, b_, c_, d_;
};

TEST_F(CudaLaneTest, MultipliesTheMatricesThatItWasGiven) {
  ASSERT_TRUE(Multiply(MakePlan()).ok());
  ASSERT_EQ(fake_.launches.size(), 1u);
  EXPECT_EQ(fake_.launches[0].symbol, "gemmd_kernel");
  EXPECT_EQ(fake_.launches[0].config.gridDimX, 2u);
  const auto arguments = fake_.launches[0].argument<Arguments>();
  EXPECT_EQ(MapOf(arguments.x).pointer, AddressOf(*a_)) << "X is A";
  EXPECT_EQ(MapOf(arguments.y).pointer, AddressOf(*b_)) << "Y is B";
  EXPECT_EQ(MapOf(arguments.c).pointer, AddressOf(*c_));
  EXPECT_EQ(MapOf(arguments.d).pointer, AddressOf(*d_));
  EXPECT_EQ(arguments.epilogue.alpha, 3.0f);
  EXPECT_EQ(arguments.epilogue.beta, 0.25f);
}

TEST_F(CudaLaneTest, EncodesTheMapsOfEachMatrixOnce) {
  jit::Plan plan = MakePlan();
  ASSERT_TRUE(Multiply(plan).ok());
  EXPECT_EQ(fake_.maps.size(), 4u);
  ASSERT_TRUE(Multiply(plan).ok());
  EXPECT_EQ(fake_.maps.size(), 4u);
  // Another matrix has another map, and so has one that is read otherwise.
  std::swap(a_, b_);
  ASSERT_TRUE(Multiply(plan).ok());
  const auto swapped = fake_.launches.back().argument<Arguments>();
  EXPECT_EQ(MapOf(swapped.x).pointer, AddressOf(*a_));
  EXPECT_EQ(MapOf(swapped.y).pointer, AddressOf(*b_));
  plan.x.box_lines = 64;
  ASSERT_TRUE(Multiply(plan).ok());
  const auto other = fake_.launches.back().argument<Arguments>();
  EXPECT_EQ(MapOf(other.x).box_lines, 64u);
  EXPECT_EQ(MapOf(other.y).box_lines, 0u);
}

TEST_F(CudaLaneTest, EncodesAnewWhatWasNotKept) {
  jit::Plan plan = MakePlan();
  for (int lines = 1; lines < 3000; ++lines) {
    plan.x.lines = lines;
    ASSERT_TRUE(Multiply(plan).ok());
    const auto arguments = fake_.launches.back().argument<Arguments>();
    ASSERT_EQ(MapOf(arguments.x).lines, static_cast<uint64_t>(lines));
    ASSERT_EQ(MapOf(arguments.d).pointer, AddressOf(*d_));
  }
  const size_t before = fake_.maps.size();
  EXPECT_LT(before, 3100u);
  plan.x.lines = 1;
  ASSERT_TRUE(Multiply(plan).ok());
  EXPECT_EQ(fake_.maps.size(), before + 1) << "it was given up for others";
}

TEST_F(CudaLaneTest, LongKernelsOfAllLanesRunOneAfterTheOther) {
  const auto other = *device_->CreateLane();
  ASSERT_TRUE(lane_->Synchronize().ok()) << "matrices are there";
  std::vector<CUstream> ran;
  fake_.run_kernel = [&](const FakeDriver::Launch& launch) {
    ran.push_back(launch.config.hStream);
  };
  jit::Plan plan = MakePlan();
  ASSERT_TRUE(MultiplyOn(*lane_, plan).ok());
  ASSERT_TRUE(MultiplyOn(*other, plan).ok());
  ASSERT_TRUE(other->Synchronize().ok());
  EXPECT_EQ(ran.size(), 1u) << "short ones do not wait for each other";
  fake_.Finish();
  ran.clear();
  plan.predicted_cycles = 1e6;
  fake_.Forget();
  ASSERT_TRUE(MultiplyOn(*lane_, plan).ok());
  ASSERT_TRUE(MultiplyOn(*lane_, plan).ok());
  EXPECT_EQ(fake_.CountOf("cuStreamWaitEvent"), 0) << "a stream is in order";
  ASSERT_TRUE(MultiplyOn(*other, plan).ok());
  EXPECT_EQ(fake_.CountOf("cuStreamWaitEvent"), 1);
  ASSERT_TRUE(other->Synchronize().ok());
  ASSERT_EQ(ran.size(), 3u) << "all before it";
  EXPECT_EQ(ran[0], ran[1]);
  EXPECT_NE(ran[1], ran[2]);
  ASSERT_TRUE(MultiplyOn(*lane_, plan).ok());
  ASSERT_TRUE(lane_->Synchronize().ok());
  EXPECT_EQ(ran.size(), 4u);
}

TEST_F(CudaLaneTest, CopiesFromAnotherDeviceByBothContexts) {
  const auto other = *CudaDevice::Open(fake_.table(), 1, {});
  const auto there = *other->CreateLane();
  const auto from = *there->Allocate(problem_.a());
  const std::string bytes(9 * 10, 'x');
  const absl::Span<const char> piece = bytes;
  ASSERT_TRUE(there->Upload({{&piece, 1}, 10}, {0, 9}, *from).ok());
  ASSERT_TRUE(there->Synchronize().ok());
  ASSERT_TRUE(lane_->CopyFromPeer(*from, *a_).ok());
  ASSERT_EQ(fake_.peer_copies.size(), 1u);
  EXPECT_NE(fake_.peer_copies[0].from, fake_.peer_copies[0].to);
  EXPECT_EQ(fake_.peer_copies[0].from,
            static_cast<const CudaMatrix&>(*from).context().get());
  const auto copy = *lane_->Download(*a_, {0, 9}, 10);
  EXPECT_EQ(std::string(copy->bytes().data(), bytes.size()), bytes);
}

// The other one may be the one that is lost.
TEST_F(CudaLaneTest, ACopyFromAnotherDeviceThatFailsDoesNotMeanThatThisIsLost) {
  const auto other = *CudaDevice::Open(fake_.table(), 1, {});
  const auto from = *(*other->CreateLane())->Allocate(problem_.a());
  fake_.Fail("cuMemcpyPeerAsync", CUDA_ERROR_ILLEGAL_ADDRESS);
  const absl::Status status = lane_->CopyFromPeer(*from, *a_);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(device::IsLost(status));
}

TEST_F(CudaLaneTest, DerivesAFormOnItsStreamBeforeTheProductReadsIt) {
  const jit::MatrixLayout stored = {jit::DataType::kS8, jit::Order::kRowMajor,
                                    300, 70};
  auto from = *lane_->Allocate(stored);
  auto to = *lane_->Allocate(jit::FormLayout(stored, jit::Form::kTransposed));
  fake_.argument_bytes["gemmd_kernel"] = sizeof(PrepareArguments);
  const auto kernel = *device_->Load({}, {});
  ASSERT_TRUE(lane_->Prepare(jit::Form::kTransposed, *kernel, *from, *to).ok());
  ASSERT_EQ(fake_.launches.size(), 1u);
  const FakeDriver::Launch& launch = fake_.launches[0];
  EXPECT_EQ(launch.config.hStream,
            reinterpret_cast<CUstream>(fake_.calls().back().stream));
  EXPECT_NE(launch.config.hStream, nullptr);
  EXPECT_EQ(launch.config.blockDimX, unsigned{kPrepareThreads});
  EXPECT_EQ(launch.config.gridDimX, 3u);  // Of 128 lines each.
  EXPECT_TRUE(launch.overlaps);           // It waits by griddepcontrol.
  const auto arguments = launch.argument<PrepareArguments>();
  EXPECT_EQ(reinterpret_cast<uint64_t>(arguments.from), AddressOf(*from));
  EXPECT_EQ(reinterpret_cast<uint64_t>(arguments.to), AddressOf(*to));
  EXPECT_EQ(arguments.from_pitch, 128);
  EXPECT_EQ(arguments.to_pitch, 384);
  EXPECT_EQ(arguments.width, 70);
  EXPECT_EQ(arguments.lines, 300);
  EXPECT_EQ(arguments.matrices, 1);
  // The stored operand may go at once: it is freed behind its last reader.
  from.reset();
  ASSERT_TRUE(lane_->Synchronize().ok());
}

TEST_F(CudaLaneTest, WorkOfALaneRunsInItsOrder) {
  fake_.run_kernel = [this](const FakeDriver::Launch& launch) {
    const auto arguments = launch.argument<Arguments>();
    std::memset(reinterpret_cast<void*>(MapOf(arguments.d).pointer), 'd',
                static_cast<size_t>(problem_.d().device_bytes()));
  };
  ASSERT_TRUE(lane_->Clear(*d_).ok());
  ASSERT_TRUE(Multiply(MakePlan()).ok());
  const auto got = lane_->Download(*d_, {0, 9}, 14);
  ASSERT_TRUE(got.ok()) << got.status();
  const absl::Span<char> bytes = (*got)->bytes();
  EXPECT_EQ(std::string(bytes.data(), bytes.size()), std::string(9 * 14, 'd'));
}

TEST_F(CudaLaneTest, KernelsMayUseAllSharedMemoryThatIsLeft) {
  fake_.static_shared_bytes = 1024;
  jit::Plan plan = MakePlan();
  plan.shared_memory_bytes =
      device_->description().properties.shared_memory_bytes - 1024;
  const absl::Status launched = Multiply(plan);
  EXPECT_TRUE(launched.ok())
      << "the function's limit was not raised: " << launched;
}

TEST_F(CudaLaneTest, ASplitProductIsReducedByItsOwnCubin) {
  ASSERT_TRUE(Multiply(SplitPlan(4096)).ok());
  ASSERT_EQ(fake_.launches.size(), 2u);
  EXPECT_EQ(fake_.launches[0].symbol, "gemmd_kernel");
  EXPECT_EQ(fake_.launches[1].symbol, "gemmd_reduce");
  EXPECT_EQ(fake_.launches[0].config.hStream, fake_.launches[1].config.hStream);
  const auto product = fake_.launches[0].argument<Arguments>();
  const auto reduction = fake_.launches[1].argument<ReduceArguments>();
  EXPECT_EQ(MapOf(product.d).pointer,
            reinterpret_cast<uint64_t>(reduction.partials));
  EXPECT_EQ(reinterpret_cast<uint64_t>(reduction.d), AddressOf(*d_));
  EXPECT_EQ(reinterpret_cast<uint64_t>(reduction.epilogue.c), AddressOf(*c_));
  EXPECT_EQ(reduction.epilogue.alpha, 3.0f);
  EXPECT_EQ(reduction.epilogue.beta, 0.25f);
}

TEST_F(CudaLaneTest, TheWorkspaceGrowsWithTheProducts) {
  for (const int64_t bytes : {1000, 5000, 3000, 5001}) {
    ASSERT_TRUE(Multiply(SplitPlan(bytes)).ok());
    const auto reduction = fake_.launches.back().argument<ReduceArguments>();
    EXPECT_GE(fake_.memory.BytesAt(reduction.partials),
              static_cast<size_t>(bytes))
        << "the workspace did not grow";
  }
  // Earlier products still run in the workspaces that they were given: the
  // fake fails the test when one is gone.
  ASSERT_TRUE(lane_->Synchronize().ok());
  EXPECT_EQ(fake_.CountOf("cuMemFreeAsync"), 2) << "3000 bytes fit into 5000";
}

TEST_F(CudaLaneTest, OperandsLiveUntilTheProductIsDone) {
  auto other = *device_->CreateLane();
  ASSERT_TRUE(lane_->Synchronize().ok());  // All operands are there.
  std::swap(lane_, other);
  ASSERT_TRUE(Multiply(MakePlan()).ok());
  a_.reset();
  b_.reset();
  c_.reset();
  d_.reset();
  // The lane on which they were made comes to their end before the other one
  // has begun: the fake fails the test when the product finds them gone.
  ASSERT_TRUE(other->Synchronize().ok());
  ASSERT_TRUE(lane_->Synchronize().ok());
}

TEST_F(CudaLaneTest, BringsTheArgumentsOfAGroupAndLaunchesOnce) {
  fake_.argument_bytes["gemmd_kernel"] = sizeof(GroupedArguments);
  std::vector<Arguments> brought;
  fake_.run_kernel = [&](const FakeDriver::Launch& launch) {
    const auto* table = launch.argument<GroupedArguments>().products;
    brought.assign(table, table + 2);
  };
  jit::Plan plan = MakePlan();
  plan.config.grouped = true;
  const auto kernel = *device_->Load({.cubin = "cubin"}, plan);
  auto other = *lane_->Allocate(problem_.d());
  jit::Problem twice = problem_;
  twice.alpha = 6.0f;
  const device::Operands operands = {
      .a = a_.get(), .b = b_.get(), .c = c_.get(), .d = d_.get()};
  device::Operands others = operands;
  others.d = other.get();
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(lane_
                    ->MultiplyGroup(
                        {{&problem_, &plan, operands}, {&twice, &plan, others}},
                        *kernel)
                    .ok());
  }
  ASSERT_TRUE(lane_->Synchronize().ok());
  ASSERT_EQ(fake_.launches.size(), 2u);
  ASSERT_EQ(brought.size(), 2u);
  EXPECT_EQ(brought[0].epilogue.alpha, 3.0f);
  EXPECT_EQ(brought[1].epilogue.alpha, 6.0f);
  EXPECT_EQ(MapOf(brought[0].d).pointer, AddressOf(*d_));
  EXPECT_EQ(MapOf(brought[1].d).pointer, AddressOf(*other));
  EXPECT_EQ(MapOf(brought[1].x).pointer, AddressOf(*a_));
}

}  // namespace
}  // namespace gemmd::gpu
