// What a device's kernel table answers while kernels come and go.
#include "service/engine/kernel_table.h"

#include <gtest/gtest.h>

#include "service/host/host_device.h"
#include "tests/service/fake_cache.h"

namespace gemmd::engine {
namespace {

class KernelTableTest : public ::testing::Test {
 protected:
  const jit::TemplateLibrary templates_ = jit::TemplateLibrary::Embedded();
  const std::unique_ptr<device::Device> device_ = host::CreateHostDevice({});
  testing::FakeCache cache_;
  KernelTable table_{*device_, cache_, templates_};
};

jit::Problem Large() { return {.m = 4096, .n = 4096, .k = 4096}; }
jit::Problem Small() { return {.m = 100, .n = 200, .k = 64}; }
jit::Problem LongSum() { return {.m = 512, .n = 512, .k = 8192}; }

TEST_F(KernelTableTest, ANewFamilyHasNoSubstitute) {
  EXPECT_EQ(table_.Find(Large()), nullptr);
  EXPECT_EQ(table_.FindSubstitute(Large()), nullptr);
}

TEST_F(KernelTableTest, AnotherKernelOfTheFamilyStandsIn) {
  ASSERT_TRUE(table_.Prepare(Small(), absl::InfiniteFuture()).ok());
  ASSERT_EQ(table_.Find(Large()), nullptr);
  const auto substitute = table_.FindSubstitute(Large());
  ASSERT_NE(substitute, nullptr);
  EXPECT_EQ(substitute->kernel, table_.Find(Small())->kernel);
  // The launch is that of the large problem.
  EXPECT_EQ(substitute->plan.rows * substitute->plan.columns, 4096 * 4096);
  EXPECT_EQ(substitute->plan.depth, 4096);
}

TEST_F(KernelTableTest, TheOwnKernelTakesOver) {
  ASSERT_TRUE(table_.Prepare(Small(), absl::InfiniteFuture()).ok());
  const auto substitute = table_.FindSubstitute(Large());
  ASSERT_TRUE(table_.Prepare(Large(), absl::InfiniteFuture()).ok());
  const auto own = table_.Find(Large());
  ASSERT_NE(own, nullptr);
  EXPECT_NE(own->kernel, substitute->kernel);
}

TEST_F(KernelTableTest, OtherFamiliesDoNotStandIn) {
  ASSERT_TRUE(table_.Prepare(Small(), absl::InfiniteFuture()).ok());
  jit::Problem other = Large();
  other.a_order = jit::Order::kColumnMajor;
  EXPECT_EQ(table_.FindSubstitute(other), nullptr);
  other = Large();
  other.c_type = other.d_type = jit::DataType::kF32;
  EXPECT_EQ(table_.FindSubstitute(other), nullptr);
  other = Large();
  other.beta = 1;
  EXPECT_EQ(table_.FindSubstitute(other), nullptr);
}

// The same request gives the same bits: sums split over CTAs are rounded
// elsewhere than whole ones.
TEST_F(KernelTableTest, SplitSumsNeitherStandInNorAreStoodInFor) {
  ASSERT_TRUE(table_.Prepare(LongSum(), absl::InfiniteFuture()).ok());
  ASSERT_TRUE(table_.Find(LongSum())->plan.config.split_k);
  EXPECT_EQ(table_.FindSubstitute(Large()), nullptr);
  table_.Evict(table_.Find(LongSum())->kernel->key);
  ASSERT_TRUE(table_.Prepare(Small(), absl::InfiniteFuture()).ok());
  EXPECT_EQ(table_.FindSubstitute(LongSum()), nullptr);
}

TEST_F(KernelTableTest, WaitingForACompileBeatsAVerySlowSubstitute) {
  ASSERT_TRUE(
      table_.Prepare({.m = 64, .n = 8, .k = 64}, absl::InfiniteFuture()).ok());
  EXPECT_NE(table_.FindSubstitute({.m = 4096, .n = 64, .k = 256}), nullptr);
  EXPECT_EQ(table_.FindSubstitute({.m = 65536, .n = 65536, .k = 65536}),
            nullptr);
}

TEST_F(KernelTableTest, OneShapeIsPreparedBehindOnce) {
  EXPECT_TRUE(table_.BeginPreparing(Large()));
  EXPECT_FALSE(table_.BeginPreparing(Large()));
  EXPECT_TRUE(table_.BeginPreparing(Small()));
  table_.EndPreparing(Large());
  EXPECT_TRUE(table_.BeginPreparing(Large()));
}

}  // namespace
}  // namespace gemmd::engine
