// Kernels that compiler or device refuse give way to the next best, for a
// while.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jit/plan/planner.h"
#include "service/engine/kernel_table.h"
#include "tests/service/kernel_table_fixture.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using testing::BestKernels;
using testing::KernelTableTest;
using testing::Large;
using testing::LongSum;
using testing::NameOf;

TEST_F(KernelTableTest, AKernelThatTheCompilerRefusesGivesWayToTheNextBest) {
  const std::vector<std::string> best = BestKernels(Large(), 2);
  ASSERT_NE(best[0], best[1]);
  cache_.Reject(best[0]);
  auto prepared = Prepare(Large());
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ((*prepared)->kernel->name, best[1]);
  const int gets = cache_.gets();
  prepared = Prepare(Large());
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(cache_.gets(), gets) << "the refusal is remembered";
  EXPECT_EQ(refused_, std::vector{best[0]});
}

TEST_F(KernelTableTest, AKernelThatTheDeviceRefusesGivesWayToTheNextBest) {
  const std::vector<std::string> best = BestKernels(Large(), 2);
  device_.Refuse(best[0]);
  const auto prepared = Prepare(Large());
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ((*prepared)->kernel->name, best[1]);
  EXPECT_EQ(cache_.quarantined(), 2);  // It was tried twice, not for ever.
  EXPECT_EQ(refused_, std::vector{best[0]});
}

TEST_F(KernelTableTest, NeighboursThatAreRefusedTogetherFailNoRequest) {
  const std::vector<std::string> best = BestKernels(Large(), 8);
  for (int i = 0; i < 7; ++i) cache_.Reject(best[i]);
  const auto prepared = Prepare(Large());
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ((*prepared)->kernel->name, best[7]);
}

TEST_F(KernelTableTest, TwelveRefusalsAreTheRequestsAnswer) {
  for (const std::string& name : BestKernels(Large(), 12)) cache_.Reject(name);
  EXPECT_EQ(Prepare(Large()).status().code(), StatusCode::kInternal);
  EXPECT_EQ(cache_.gets(), 12);
  EXPECT_EQ(Prepare(Large()).status().code(), StatusCode::kInternal);
  EXPECT_EQ(cache_.gets(), 12);
}

// Trouble of the moment is nothing to hold against a kernel.
TEST_F(KernelTableTest, ACrashedCompilerIsNoRefusal) {
  cache_.Fail(absl::UnavailableError("the compiler crashed"));
  EXPECT_EQ(Prepare(Large()).status().code(), StatusCode::kUnavailable);
  cache_.Fail(absl::OkStatus());
  const auto prepared = Prepare(Large());
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ((*prepared)->kernel->name, BestKernels(Large(), 1)[0]);
}

TEST_F(KernelTableTest, ARefusedKernelGivesWayToOneOfTheSameSplits) {
  const std::vector<jit::Plan> plans = jit::RankPlans(LongSum(), {}, 64);
  const int splits = plans[0].splits;
  ASSERT_GT(splits, 1);
  cache_.Reject(NameOf(plans[0]));
  const auto prepared = Prepare(LongSum());
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ((*prepared)->plan.splits, splits);
  EXPECT_NE((*prepared)->kernel->name, NameOf(plans[0]));
}

}  // namespace
}  // namespace gemmd::engine
