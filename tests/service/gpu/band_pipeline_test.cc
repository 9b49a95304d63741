// Bands on a lane: what waits for what, and what is done when the lane says so.
#include "service/gpu/band_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "jit/plan/form.h"
#include "service/gpu/cuda_device.h"
#include "service/gpu/cuda_matrix.h"
#include "templates/common/arguments.h"
#include "tests/service/gpu/fake_driver.h"
#include "tests/service/gpu/host_region.h"

namespace gemmd::gpu {
namespace {

constexpr int64_t kPitch = 16;  // Of lines of 8 elements of 16 bits.
constexpr size_t kRegionBytes = 1024;
constexpr int64_t kDAt = 512;
constexpr double kKernelUs = 100;

class BandPipelineTest : public testing::Test {
 protected:
  // D's bytes are those of A, each that of B's beginning added.
  BandPipelineTest() {
    fake_.run_kernel = [this](const FakeDriver::Launch& launch) {
      const auto arguments = launch.argument<Arguments>();
      const auto* const a = At(arguments.x);
      const auto* const b = At(arguments.y);
      for (int64_t i = 0; i < arguments.epilogue.rows * kPitch; ++i) {
        At(arguments.d)[i] = static_cast<char>(a[i] + *b);
      }
      fake_.clock_us += kKernelUs;
    };
    for (size_t i = 0; i < 256; ++i) region_->bytes()[i] = 'a' + i % 20;
    const std::string ones(8 * kPitch, '\1');
    const absl::Span<const char> pieces[] = {ones};
    EXPECT_TRUE(lane_->Upload({pieces, kPitch}, {0, 8}, *b_).ok());
  }

  char* At(const TensorMap& map) {
    return reinterpret_cast<char*>(fake_.MapOf(map.bytes).pointer);
  }

  // The next `lines` of A and D.
  void Add(int64_t lines) {
    jit::Problem& problem = problems_.emplace_back();
    problem.m = lines;
    problem.n = problem.k = 8;
    problem.b_order = jit::Order::kColumnMajor;
    jit::Plan& plan = plans_.emplace_back();
    plan.rows = lines;
    plan.columns = plan.depth = 8;
    plan.stages = 1;
    plan.threads = 128;
    plan.shared_memory_bytes = 1024;
    plan.x = plan.d = {.width = 8, .lines = lines, .pitch_bytes = kPitch};
    plan.y = {.width = 8, .lines = 8, .pitch_bytes = kPitch};
    pieces_.push_back(
        {region_->bytes().subspan(lines_ * kPitch, lines * kPitch)});
    matrices_.push_back(*lane_->Allocate(problem.a()));
    device::Matrix& a = *matrices_.back();
    matrices_.push_back(*lane_->Allocate(problem.d()));
    device::Matrix& d = *matrices_.back();
    bands_.push_back(
        {.inputs = {{{{&pieces_.back(), 1}, kPitch, region_}, &a}},
         .product = {&problem, &plan, {.a = &a, .b = b_.get(), .d = &d}},
         .results = {{&d, {region_, kDAt + lines_ * kPitch}, kPitch}}});
    lines_ += lines;
  }

  absl::StatusOr<device::BandTimes> Run() {
    if (kernel_ == nullptr) {
      jit::CompiledKernel compiled;
      compiled.cubin = "cubin";
      kernel_ = *device_->Load(compiled, plans_[0]);
    }
    fake_.Forget();
    return lane_->MultiplyInBands(bands_, *kernel_);
  }

  void ExpectResults() {
    std::string expected(region_->bytes().data(), lines_ * kPitch);
    for (char& byte : expected) ++byte;
    EXPECT_EQ(std::string(region_->bytes().data() + kDAt, expected.size()),
              expected);
    EXPECT_EQ(region_->bytes()[kDAt - 1], '.');
    EXPECT_EQ(region_->bytes()[kDAt + expected.size()], '.');
  }

  std::set<uintptr_t> StreamsOf(const std::string& function) {
    std::set<uintptr_t> streams;
    for (const FakeDriver::Call& call : fake_.calls()) {
      if (call.function == function) streams.insert(call.stream);
    }
    return streams;
  }

  FakeDriver fake_;
  const std::unique_ptr<CudaDevice> device_ =
      *CudaDevice::Open(fake_.table(), 0, {});
  std::shared_ptr<HostRegion> region_ = std::make_shared<HostRegion>(
      std::string(kRegionBytes, '.'), device_.get());
  std::unique_ptr<device::Lane> lane_ = *device_->CreateLane();
  std::unique_ptr<device::Matrix> b_ =
      *lane_->Allocate({.rows = 8, .columns = 8});
  std::unique_ptr<device::Kernel> kernel_;
  std::deque<jit::Problem> problems_;
  std::deque<jit::Plan> plans_;
  std::deque<absl::Span<const char>> pieces_;
  std::vector<std::unique_ptr<device::Matrix>> matrices_;
  std::vector<device::Band> bands_;
  int64_t lines_ = 0;
};

// The fake does what is waited for, and as late as it can: whatever does not
// wait for what it reads, or is not waited for, finds what was there before.
TEST_F(BandPipelineTest, EachStepWaitsForWhatItReadsAndTheEndForAll) {
  for (const int64_t lines : {5, 5, 5, 1}) Add(lines);
  ASSERT_TRUE(Run().ok());
  ExpectResults();
}

TEST_F(BandPipelineTest, BothDirectionsAndProductsAreSideBySide) {
  for (const int64_t lines : {4, 4, 4}) Add(lines);
  ASSERT_TRUE(Run().ok());
  const std::set<uintptr_t> up = StreamsOf("cuMemcpyHtoDAsync");
  const std::set<uintptr_t> products = StreamsOf("cuLaunchKernelEx");
  const std::set<uintptr_t> down = StreamsOf("cuMemcpyDtoHAsync");
  for (const auto& streams : {up, products, down}) {
    EXPECT_EQ(streams.size(), 1u) << "bands are in order";
  }
  EXPECT_NE(up, products);
  EXPECT_NE(up, down);
  EXPECT_NE(products, down);
  // What is brought waits once, for what was there before the bands.
  int waits = 0;
  for (const FakeDriver::Call& call : fake_.calls()) {
    waits += call.function == "cuStreamWaitEvent" && up.contains(call.stream);
  }
  EXPECT_EQ(waits, 1);
}

TEST_F(BandPipelineTest, AFormIsDerivedBetweenComingAndMultiplying) {
  for (const int64_t lines : {4, 4}) Add(lines);
  fake_.run_kernel = nullptr;
  fake_.argument_bytes["gemmd_kernel"] = sizeof(PrepareArguments);
  const auto derive = *device_->Load({}, {});
  for (device::Band& band : bands_) {
    const jit::MatrixLayout stored = {
        .type = jit::DataType::kS8, .rows = 4, .columns = kPitch};
    matrices_.push_back(*lane_->Allocate(stored));
    device::Matrix& from = *matrices_.back();
    band.inputs[0].to = &from;
    matrices_.push_back(
        *lane_->Allocate(jit::FormLayout(stored, jit::Form::kTransposed)));
    device::Matrix& to = *matrices_.back();
    band.derivations = {{jit::Form::kTransposed, derive.get(), &from, &to}};
    band.product.operands.a = &to;
  }
  ASSERT_TRUE(Run().ok());
  ASSERT_EQ(fake_.launches.size(), 4u);
  const CUstream stream = fake_.launches[0].config.hStream;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(fake_.launches[i].config.hStream, stream);
  }
  for (size_t i = 0; i < 2; ++i) {
    const auto arguments = fake_.launches[2 * i].argument<PrepareArguments>();
    EXPECT_EQ(
        arguments.from,
        reinterpret_cast<const void*>(
            static_cast<const CudaMatrix&>(*bands_[i].inputs[0].to).pointer()));
  }
  // It waits for its band before either.
  std::string order;
  for (const FakeDriver::Call& call : fake_.calls()) {
    if (call.stream != reinterpret_cast<uintptr_t>(stream)) continue;
    if (call.function == "cuStreamWaitEvent") order += 'w';
    if (call.function == "cuLaunchKernelEx") order += 'l';
  }
  EXPECT_EQ(order, "wllwll");
}

TEST_F(BandPipelineTest, NothingIsWaitedForBeforeAllIsGivenToTheDevice) {
  for (const int64_t lines : {4, 4, 4}) Add(lines);
  ASSERT_TRUE(Run().ok());
  const std::vector<std::string> names = fake_.names();
  const auto first =
      std::find(names.begin(), names.end(), "cuStreamSynchronize");
  EXPECT_THAT(std::vector(first, names.end()),
              testing::Not(testing::Contains("cuMemcpyDtoHAsync")));
  EXPECT_EQ(std::count(first, names.end(), "cuStreamSynchronize"), 3);
  EXPECT_THAT(names, testing::Not(testing::Contains("cuEventSynchronize")));
}

TEST_F(BandPipelineTest, StreamsAreMadeOnce) {
  Add(4);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(fake_.CountOf("cuStreamCreate"), 2);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(fake_.CountOf("cuStreamCreate"), 0);
}

// The fake brings a band when its product is to be made, and its copies take no
// time: the last one comes when two products have been made.
TEST_F(BandPipelineTest, WhatIsSideBySideCountsOnce) {
  for (const int64_t lines : {4, 4, 4}) Add(lines);
  const auto times = Run();
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_EQ(times->upload, absl::Microseconds(2 * kKernelUs));
  EXPECT_EQ(times->execute, absl::Microseconds(kKernelUs));
  EXPECT_EQ(times->download, absl::ZeroDuration());
  EXPECT_EQ(times->kernels, absl::Microseconds(3 * kKernelUs));
}

// The client has its memory back by then, and what is under way would be seen
// by the fake.
TEST_F(BandPipelineTest, AnErrorIsToldWhenNothingIsUnderWay) {
  for (const char* function :
       {"cuMemcpyHtoDAsync", "cuLaunchKernelEx", "cuMemcpyDtoHAsync",
        "cuEventRecord", "cuStreamWaitEvent"}) {
    for (const int64_t lines : {4, 4}) Add(lines);
    fake_.Fail(function, CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_FALSE(Run().ok()) << function;
    EXPECT_EQ(fake_.CountOf("cuStreamSynchronize"), 3) << function;
    bands_.clear();
    lines_ = 0;
  }
  Add(4);
  for (const int stream : {0, 1, 2}) {
    fake_.Fail("cuStreamSynchronize", CUDA_ERROR_LAUNCH_FAILED, 1, stream);
    EXPECT_FALSE(Run().ok()) << stream;
    EXPECT_EQ(fake_.CountOf("cuStreamSynchronize"), 3) << "of all streams";
    fake_.Finish();
  }
  bands_.clear();
  const std::weak_ptr<const device::Region> watched = region_;
  region_.reset();
  EXPECT_TRUE(watched.expired());
}

TEST_F(BandPipelineTest, MemoryThatIsNotPinnedGoesThroughTheDaemons) {
  region_ = std::make_shared<HostRegion>(
      std::string(region_->bytes().data(), kRegionBytes), nullptr);
  for (const int64_t lines : {4, 4, 2}) Add(lines);
  const auto times = Run();
  ASSERT_TRUE(times.ok()) << times.status();
  ExpectResults();
  EXPECT_EQ(StreamsOf("cuMemcpyHtoDAsync").size(), 1u);
  EXPECT_NE(StreamsOf("cuMemcpyHtoDAsync"), StreamsOf("cuLaunchKernelEx"));
}

}  // namespace
}  // namespace gemmd::gpu
