// What is launched to time kernels, on a GPU whose clock a test turns.
#include "service/gpu/cuda_timing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "jit/plan/planner.h"
#include "jit/problem/problem_line.h"
#include "service/gpu/cuda_device.h"
#include "service/gpu/cuda_lane.h"
#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

class CudaTimingTest : public testing::Test {
 protected:
  CudaTimingTest() {
    fake_.symbols = {"gemmd_kernel", "gemmd_reduce", "gemmd_line_bits"};
    fake_.attributes[CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE] = 1 << 20;
    device_ = *CudaDevice::Open(fake_.table(), 0, {});
    fake_.run_kernel = [this](const FakeDriver::Launch& launch) {
      ++runs_[launch.function];
      fake_.clock_us += us_.at(launch.function);
    };
  }

  // The best plans of `problem`; the i-th takes us[i], and its reduction 1 us.
  void Contend(const std::string& line, const std::vector<double>& us) {
    problem_ = *jit::ParseProblemLine(line);
    for (const jit::Plan& plan :
         jit::RankPlans(problem_, {}, static_cast<int>(us.size()))) {
      jit::CompiledKernel compiled;
      compiled.cubin = "cubin";
      auto kernel = device_->Load(compiled, plan);
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      const auto& functions =
          static_cast<const CudaKernel&>(**kernel).functions();
      us_[functions.multiply] = us[contenders_.size()];
      if (functions.reduce != nullptr) us_[functions.reduce] = 1;
      multiply_.push_back(functions.multiply);
      contenders_.push_back({plan, kernel->get()});
      kernels_.push_back(*std::move(kernel));
    }
  }
  absl::StatusOr<std::unique_ptr<device::Timing>> Create() {
    return device_->CreateTiming(
        problem_, contenders_,
        device_->TimingMemoryOf(problem_, contenders_).enough_bytes);
  }

  FakeDriver fake_;
  std::unique_ptr<CudaDevice> device_;
  jit::Problem problem_;
  std::vector<std::unique_ptr<device::Kernel>> kernels_;
  std::vector<device::Contender> contenders_;
  std::vector<CUfunction> multiply_;
  std::map<CUfunction, double> us_;
  std::map<CUfunction, int> runs_;
};

TEST_F(CudaTimingTest, TellsTheTimeOfEachContender) {
  Contend("bf16 TN 256 256 256", {5, 7.5, 400});
  const auto timing = Create();
  ASSERT_TRUE(timing.ok()) << timing.status();
  for (int round = 0; round < 2; ++round) {
    EXPECT_NEAR((*timing)->Sample(2).value(), 400, 0.01);
    EXPECT_NEAR((*timing)->Sample(0).value(), 5, 0.01);
    EXPECT_NEAR((*timing)->Sample(1).value(), 7.5, 0.01);
  }
}

TEST_F(CudaTimingTest, TheReductionCounts) {
  Contend("bf16 TN 512 512 8192", {10});
  ASSERT_TRUE(contenders_[0].plan.config.split_k);
  const auto timing = Create();
  ASSERT_TRUE(timing.ok()) << timing.status();
  EXPECT_NEAR((*timing)->Sample(0).value(), 11, 0.01);
}

// A sample is two replays of 0.3 milliseconds, the first of which warms up, or
// one product.
TEST_F(CudaTimingTest, SamplesAreShort) {
  Contend("bf16 TN 1024 1024 1024", {5, 90000});
  const auto timing = Create();
  ASSERT_TRUE(timing.ok()) << timing.status();
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE((*timing)->Sample(i).ok());
    // The first time one more, to load it.
    if (i == 1) {
      EXPECT_EQ(runs_[multiply_[1]], 2);
    }
    runs_.clear();
    const double before = fake_.clock_us;
    ASSERT_TRUE((*timing)->Sample(i).ok());
    if (i == 0) {
      EXPECT_NEAR(fake_.clock_us - before, 600, 50);
    } else {
      EXPECT_EQ(runs_[multiply_[1]], 1);
    }
  }
}

// What the caches hold of a product's inputs has been replaced by those of
// others before it is read again.
TEST_F(CudaTimingTest, LaunchesTakeTurnsOnTheCopies) {
  Contend("bf16 TN 256 256 256", {20});
  const auto timing = Create();
  ASSERT_TRUE(timing.ok()) << timing.status();
  ASSERT_TRUE((*timing)->Sample(0).ok());
  fake_.launches.clear();
  std::vector<uint64_t> inputs;
  fake_.run_kernel = [&](const FakeDriver::Launch& launch) {
    fake_.clock_us += 20;
    inputs.push_back(fake_.MapOf(launch.argument<Arguments>().x.bytes).pointer);
  };
  ASSERT_TRUE((*timing)->Sample(0).ok());
  const ScratchLayout layout = ScratchLayoutOf(problem_, contenders_);
  const auto copies = static_cast<size_t>(layout.CopiesBeyond(1 << 20));
  EXPECT_GT(copies, 4);
  const std::set<uint64_t> different(inputs.begin(), inputs.end());
  EXPECT_EQ(different.size(), copies);
  for (size_t i = 0; i + copies <= inputs.size(); i += copies) {
    const std::set<uint64_t> turn(
        inputs.begin() + static_cast<int64_t>(i),
        inputs.begin() + static_cast<int64_t>(i + copies));
    EXPECT_EQ(turn.size(), copies);
  }
}

TEST_F(CudaTimingTest, KeepsToTheMemoryThatItIsGiven) {
  Contend("bf16 TN 256 256 256", {20});
  const device::TimingMemory memory =
      device_->TimingMemoryOf(problem_, contenders_);
  EXPECT_LT(memory.least_bytes, memory.enough_bytes);
  const auto too_little =
      device_->CreateTiming(problem_, contenders_, memory.least_bytes - 1);
  EXPECT_EQ(too_little.status().code(), absl::StatusCode::kResourceExhausted);
  const auto least =
      device_->CreateTiming(problem_, contenders_, memory.least_bytes);
  ASSERT_TRUE(least.ok()) << least.status();
  EXPECT_NEAR((*least)->Sample(0).value(), 20, 0.01);
}

// As many copies as fit, with what they share.
TEST_F(CudaTimingTest, UsesNoMoreThanItIsGiven) {
  Contend("bf16 TN 256 256 256 bias=row", {20});
  const ScratchLayout layout = ScratchLayoutOf(problem_, contenders_);
  ASSERT_GT(layout.shared_bytes, 0);
  const int64_t given = layout.Bytes(3) - 1;
  ASSERT_LT(given, layout.Bytes(layout.CopiesBeyond(1 << 20)));
  const auto timing = device_->CreateTiming(problem_, contenders_, given);
  ASSERT_TRUE(timing.ok()) << timing.status();
  ASSERT_TRUE((*timing)->Sample(0).ok());
  const auto first = fake_.launches[0].argument<Arguments>();
  EXPECT_EQ(fake_.memory.BytesAt(reinterpret_cast<const void*>(
                fake_.MapOf(first.x.bytes).pointer)),
            static_cast<size_t>(layout.Bytes(2)));
}

TEST_F(CudaTimingTest, TellsWhetherTwoContendersGiveTheSameBits) {
  Contend("bf16 TN 256 256 256", {20, 20, 20});
  const auto timing = Create();
  ASSERT_TRUE(timing.ok()) << timing.status();
  const int64_t bytes = problem_.d().device_bytes();
  // The first two write the same; the third one leaves out the last element.
  fake_.run_kernel = [&](const FakeDriver::Launch& launch) {
    char* const d = reinterpret_cast<char*>(
        fake_.MapOf(launch.argument<Arguments>().d.bytes).pointer);
    const bool whole = launch.function != multiply_[2];
    std::memset(d, 0, static_cast<size_t>(bytes - (whole ? 0 : 2)));
  };
  EXPECT_TRUE((*timing)->GiveSameBits(0, 1).value());
  EXPECT_FALSE((*timing)->GiveSameBits(0, 2).value());
  EXPECT_FALSE((*timing)->GiveSameBits(2, 1).value());
}

TEST_F(CudaTimingTest, WhatLiesBetweenTheLinesOfDDoesNotCount) {
  Contend("bf16 TN 65 17 256", {20, 20, 20});
  const auto timing = Create();
  ASSERT_TRUE(timing.ok()) << timing.status();
  const int64_t width = problem_.d().width_bytes();
  const int64_t pitch = problem_.d().pitch_bytes();
  ASSERT_LT(width, pitch);
  // The second one writes all of a line; the third, an element of its own.
  fake_.run_kernel = [&](const FakeDriver::Launch& launch) {
    char* const d = reinterpret_cast<char*>(
        fake_.MapOf(launch.argument<Arguments>().d.bytes).pointer);
    const bool all = launch.function == multiply_[1];
    for (int64_t line = 0; line < problem_.d().lines(); ++line) {
      std::memset(d + line * pitch, 1,
                  static_cast<size_t>(all ? pitch : width));
    }
    if (launch.function == multiply_[2]) d[pitch + width - 1] = 2;
  };
  EXPECT_TRUE((*timing)->GiveSameBits(0, 1).value());
  EXPECT_FALSE((*timing)->GiveSameBits(0, 2).value());
}

TEST_F(CudaTimingTest, GivesEverythingBack) {
  const size_t before = fake_.live();
  Contend("bf16 TN 256 256 256", {20, 30});
  {
    const auto timing = Create();
    ASSERT_TRUE(timing.ok()) << timing.status();
    ASSERT_TRUE((*timing)->Sample(0).ok());
    ASSERT_TRUE((*timing)->Sample(1).ok());
  }
  kernels_.clear();
  fake_.Finish();
  // But for the pinned memory that the pool keeps.
  EXPECT_LE(fake_.live(), before + 1);
}

TEST_F(CudaTimingTest, AnErrorOfACaptureIsTheAnswer) {
  Contend("bf16 TN 256 256 256", {20});
  const auto timing = Create();
  ASSERT_TRUE(timing.ok()) << timing.status();
  // One that loads it, and three that tell how many a sample has.
  fake_.Fail("cuLaunchKernelEx", CUDA_ERROR_OUT_OF_MEMORY, 1, 4);
  EXPECT_FALSE((*timing)->Sample(0).ok());
  fake_.Fail("cuStreamEndCapture", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_FALSE((*timing)->Sample(0).ok());
}

// Kernels are unloaded then.
TEST_F(CudaTimingTest, EndsWhenNothingRuns) {
  Contend("bf16 TN 256 256 256", {20});
  auto timing = *Create();
  fake_.Fail("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY, 1, 1);
  EXPECT_FALSE(timing->Sample(0).ok());
  EXPECT_EQ(runs_[multiply_[0]], 0) << "it was launched alone";
  timing.reset();
  EXPECT_EQ(runs_[multiply_[0]], 1);
}

TEST_F(CudaTimingTest, AnErrorOfTheDeviceIsTheAnswer) {
  Contend("bf16 TN 256 256 256", {20});
  const auto timing = Create();
  ASSERT_TRUE(timing.ok()) << timing.status();
  fake_.Fail("cuGraphInstantiate", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ((*timing)->Sample(0).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_NEAR((*timing)->Sample(0).value(), 20, 0.01);
}

}  // namespace
}  // namespace gemmd::gpu
