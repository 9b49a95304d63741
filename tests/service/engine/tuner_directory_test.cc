// What a tuner does where another daemon tunes in the same cache directory.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "jit/cache/tuning_table.h"
#include "jit/plan/planner.h"
#include "jit/plan/tuned_plan.h"
#include "tests/jit/fake_compiler.h"
#include "tests/service/engine/tuner_case.h"

namespace gemmd::engine {
namespace {

// Two daemons with one cache directory, this one of two devices.
class SharedDirectoryTest : public TunerTest {
 protected:
  SharedDirectoryTest() { tuning_ = &own_; }
  void SetUp() override {
    Start({.share_percent = 0}, /*devices=*/2);
    for (const int device : {0, 1}) {
      EXPECT_EQ(Serve(LongSum(), device).splits,
                jit::ChoosePlan(LongSum(), {}).splits);
    }
  }
  void TearDown() override { engine_.reset(); }

  // The other daemon changes the parts of k.
  jit::TuningRecord ChangeElsewhere(const jit::Problem& problem) {
    const auto plans = jit::RankPlans(problem, {}, 16);
    const auto plan = std::ranges::find_if(plans, [&](const auto& plan) {
      return plan.splits != plans[0].splits;
    });
    EXPECT_NE(plan, plans.end()) << "another problem is needed";
    jit::TuningRecord record = jit::RecordOf(*plan, problem);
    record.device = (*engine_)->device(0).description().product;
    record.nanoseconds = 3000;
    record.generation = 1;
    const auto put = other_.Put(record);
    EXPECT_TRUE(put.ok()) << put.status();
    return put.value_or(record);
  }
  // The same once this daemon times kernels.
  std::optional<jit::TuningRecord>& ChangeElsewhereMeanwhile() {
    hooks_->time = [this, time = hooks_->time](const jit::Plan& plan) {
      if (!changed_) changed_ = ChangeElsewhere(LongSum());
      return time(plan);
    };
    return changed_;
  }
  void ExpectServed(int splits) {
    for (const int device : {0, 1}) {
      EXPECT_EQ(Serve(LongSum(), device).splits, splits) << device;
    }
  }

  std::optional<jit::TuningRecord> changed_;
  const jit::TemporaryDirectory directory_;
  jit::TuningTable own_{{.directory = directory_.path()}, "digest"};
  jit::TuningTable other_{{.directory = directory_.path()}, "digest"};
};

TEST_F(SharedDirectoryTest, TheNewPartsOfKAreTunedOn) {
  const jit::TuningRecord changed = ChangeElsewhere(LongSum());
  const auto outcome = Tune({.problem = LongSum()});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(timed_splits_, std::set<int>{changed.splits});
  EXPECT_EQ(outcome->kernel_before, changed.kernel);
  EXPECT_EQ(outcome->record.generation, 1);
  ExpectServed(changed.splits);
}

TEST_F(SharedDirectoryTest, PartsOfKThatChangeMeanwhileStayChanged) {
  const auto& changed = ChangeElsewhereMeanwhile();
  const auto outcome = Tune({.problem = LongSum()});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->record, changed);
  EXPECT_EQ(outcome->us, 3);
  EXPECT_EQ(Record(LongSum()), changed);
  ExpectServed(changed->splits);
}

// Both make generation 1 of it: others may have seen the first one's parts.
TEST_F(SharedDirectoryTest, OfTwoNewGenerationsTheFirstOneCounts) {
  const auto& changed = ChangeElsewhereMeanwhile();
  std::set<int> kinds;
  for (const jit::Plan& plan : jit::RankPlans(LongSum(), {}, 16)) {
    if (kinds.insert(plan.splits).second && kinds.size() == 3) Takes(plan, 10);
  }
  ASSERT_GE(kinds.size(), 3) << "another problem is needed";
  const auto outcome = Tune({.problem = LongSum(), .new_generation = true});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->record, changed);
  EXPECT_EQ(Record(LongSum()), changed);
  ExpectServed(changed->splits);
}

}  // namespace
}  // namespace gemmd::engine
