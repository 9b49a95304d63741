// A kernel table that knows what a tuner found out, and what it tells of shapes
// that nobody tuned.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jit/cache/tuning_table.h"
#include "jit/plan/planner.h"
#include "jit/plan/tuned_plan.h"
#include "service/engine/kernel_table.h"
#include "tests/service/kernel_table_fixture.h"

namespace gemmd::engine {
namespace {

using testing::BestKernels;
using testing::KernelTableTest;
using testing::Large;
using testing::LongSum;
using testing::NameOf;
using testing::Small;

class TunedKernelTableTest : public KernelTableTest {
 protected:
  // Records that `plan` is the best one of `problem`.
  void Record(const jit::Problem& problem, const jit::Plan& plan) {
    jit::TuningRecord record = jit::RecordOf(plan, problem);
    record.device = device_.description().product;
    ASSERT_TRUE(tuning_.Put(record).ok());
  }
  // A plan of LongSum() with other splits than the best one's.
  static jit::Plan OtherSplits() {
    const std::vector<jit::Plan> plans = jit::RankPlans(LongSum(), {}, 64);
    for (const jit::Plan& plan : plans) {
      if (plan.splits != plans[0].splits) return plan;
    }
    ADD_FAILURE() << "another problem is needed";
    return plans[0];
  }
  std::string KernelOf(const jit::Problem& problem) {
    const auto prepared = testing::Prepare(tuned_, problem);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    return prepared.ok() ? (*prepared)->kernel->name : "";
  }

  jit::TuningTable tuning_{{}, "digest"};
  KernelTable tuned_{
      device_, cache_, templates_, {.max_kernels = 8, .tuning = &tuning_}};
};

TEST_F(TunedKernelTableTest, WhatATunerFoundBestIsUsed) {
  const std::vector<jit::Plan> plans = jit::RankPlans(Large(), {}, 9);
  Record(Large(), plans[8]);
  EXPECT_EQ(KernelOf(Large()), NameOf(plans[8]));
  EXPECT_EQ(tuned_.Find(Large())->plan.exchanged, plans[8].exchanged);
  jit::Problem other = Large();
  other.k = 4000;
  EXPECT_EQ(KernelOf(other), BestKernels(other, 1)[0]);
}

TEST_F(TunedKernelTableTest, ANewRecordCountsFromTheNextPlanOn) {
  const std::vector<jit::Plan> plans = jit::RankPlans(Large(), {}, 9);
  EXPECT_EQ(KernelOf(Large()), NameOf(plans[0]));
  const auto before = tuned_.Find(Large());
  Record(Large(), plans[8]);
  EXPECT_EQ(tuned_.Find(Large()), before);
  tuned_.Replan(Large());
  EXPECT_EQ(tuned_.Find(Large()), nullptr);
  EXPECT_EQ(KernelOf(Large()), NameOf(plans[8]));
}

TEST_F(TunedKernelTableTest, ATunedKernelThatIsRefusedGivesWay) {
  const std::vector<jit::Plan> plans = jit::RankPlans(Large(), {}, 9);
  Record(Large(), plans[8]);
  cache_.Reject(NameOf(plans[8]));
  EXPECT_EQ(KernelOf(Large()), NameOf(plans[0]));
}

TEST_F(TunedKernelTableTest, ATunedKernelThatIsRefusedLeavesItsSplits) {
  const jit::Plan plan = OtherSplits();
  Record(LongSum(), plan);
  cache_.Reject(NameOf(plan));
  KernelOf(LongSum());
  EXPECT_EQ(tuned_.Find(LongSum())->plan.splits, plan.splits);
}

// As after an update of the planner.
TEST_F(TunedKernelTableTest, ARecordOfAnUnknownKernelLeavesItsSplits) {
  const jit::Plan plan = OtherSplits();
  jit::TuningRecord record = jit::RecordOf(plan, LongSum());
  record.device = device_.description().product;
  record.kernel = "gemm_of_another_age";
  ASSERT_TRUE(tuning_.Put(record).ok());
  KernelOf(LongSum());
  EXPECT_EQ(tuned_.Find(LongSum())->plan.splits, plan.splits);
}

TEST_F(TunedKernelTableTest, TheHottestShapesAreThoseThatNobodyTuned) {
  KernelOf(Small());
  KernelOf(Large());
  KernelOf(LongSum());
  const auto find = [this](const jit::Problem& problem, int times) {
    for (int i = 0; i < times; ++i) ASSERT_NE(tuned_.Find(problem), nullptr);
  };
  find(Small(), 20);
  find(Large(), 20);
  find(LongSum(), 9);
  auto hot = tuned_.Hottest(10, 10);
  ASSERT_EQ(hot.size(), 2);
  EXPECT_EQ(hot[0].problem.m, Large().m);  // As often, but longer.
  EXPECT_EQ(hot[0].finds, 20);
  EXPECT_GT(hot[0].predicted_us, hot[1].predicted_us);
  EXPECT_EQ(tuned_.Hottest(1, 10).size(), 1);
  Record(Large(), jit::ChoosePlan(Large(), {}));
  tuned_.Replan(Large());
  KernelOf(Large());
  find(Large(), 20);
  hot = tuned_.Hottest(10, 10);
  ASSERT_EQ(hot.size(), 1);
  EXPECT_EQ(hot[0].problem.m, Small().m);
}

// An attempt may fail each time.
TEST_F(TunedKernelTableTest, EachTimeAShapeCoolsItNeedsMoreToBeHotAgain) {
  KernelOf(Small());
  int needed = 10;
  for (int cooled = 0; cooled < 3; ++cooled, needed *= 8) {
    for (int i = 1; i < needed; ++i) ASSERT_NE(tuned_.Find(Small()), nullptr);
    EXPECT_TRUE(tuned_.Hottest(10, 10).empty()) << cooled;
    KernelOf(Small());
    tuned_.Find(Small());
    EXPECT_EQ(tuned_.Hottest(10, 10).size(), 1) << cooled;
    tuned_.Cool(Small());
    EXPECT_TRUE(tuned_.Hottest(10, 10).empty()) << cooled;
  }
}

}  // namespace
}  // namespace gemmd::engine
