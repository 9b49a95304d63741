// What a device's kernel table answers while kernels come and go.
#include "service/engine/kernel_table.h"

#include <gtest/gtest.h>

#include <utility>

#include "jit/plan/planner.h"
#include "jit/plan/tuned_plan.h"
#include "tests/service/counting_device.h"
#include "tests/service/fake_cache.h"
#include "tests/service/prepare.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using testing::CountingDevice;

class KernelTableTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const Prepared>> Prepare(
      const jit::Problem& problem) {
    return testing::Prepare(table_, problem);
  }
  // What runs `problem` before its own kernel is there; may be null.
  std::shared_ptr<const Prepared> Substitute(const jit::Problem& problem) {
    auto choice = table_.Choose(problem);
    EXPECT_TRUE(choice.ok()) << choice.status();
    EXPECT_TRUE(choice->wanted) << "its own kernel is loaded";
    return choice->prepared;
  }

  const jit::TemplateLibrary templates_ = jit::TemplateLibrary::Embedded();
  CountingDevice device_;
  testing::FakeCache cache_;
  std::vector<std::string> refused_;  // What the table told.
  KernelTable table_{
      device_,
      cache_,
      templates_,
      {.max_kernels = 8,
       .refused = [this](const std::string& kernel, const absl::Status& why) {
         EXPECT_FALSE(why.ok());
         refused_.push_back(kernel);
       }}};
};

jit::Problem Large() { return {.m = 4096, .n = 4096, .k = 4096}; }
jit::Problem Small() { return {.m = 100, .n = 200, .k = 64}; }
jit::Problem LongSum() { return {.m = 512, .n = 512, .k = 8192}; }

std::string NameOf(const jit::Plan& plan) {
  return jit::KernelName(plan.family, plan.config);
}

// The kernels of the best plans of `problem`, best first, each once.
std::vector<std::string> BestKernels(const jit::Problem& problem, int count) {
  std::vector<std::string> names;
  for (const jit::Plan& plan : jit::RankPlans(problem, {}, count)) {
    names.push_back(NameOf(plan));
  }
  return names;
}

TEST_F(KernelTableTest, ANewFamilyHasNoSubstitute) {
  EXPECT_EQ(table_.Find(Large()), nullptr);
  EXPECT_EQ(Substitute(Large()), nullptr);
  EXPECT_EQ(table_.Find(Large()), nullptr);
}

TEST_F(KernelTableTest, AnotherKernelOfTheFamilyStandsIn) {
  ASSERT_TRUE(Prepare(Small()).ok());
  const auto substitute = Substitute(Large());
  ASSERT_NE(substitute, nullptr);
  EXPECT_EQ(substitute->kernel, table_.Find(Small())->kernel);
  // The launch is that of the large problem.
  EXPECT_EQ(substitute->plan.rows * substitute->plan.columns, 4096 * 4096);
  EXPECT_EQ(substitute->plan.depth, 4096);
}

// Whoever asks again pays one hash, not a plan, and nobody is told to prepare
// the own kernel once more.
TEST_F(KernelTableTest, ASubstituteIsRemembered) {
  ASSERT_TRUE(Prepare(Small()).ok());
  const auto substitute = Substitute(Large());
  ASSERT_NE(substitute, nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(table_.Find(Large()), substitute);
}

TEST_F(KernelTableTest, TheOwnKernelTakesOver) {
  ASSERT_TRUE(Prepare(Small()).ok());
  const auto substitute = Substitute(Large());
  ASSERT_TRUE(Prepare(Large()).ok());
  const auto own = table_.Find(Large());
  ASSERT_NE(own, nullptr);
  EXPECT_NE(own->kernel, substitute->kernel);
  EXPECT_FALSE(table_.Choose(Large())->wanted);
}

TEST_F(KernelTableTest, ABetterSubstituteTakesOver) {
  ASSERT_TRUE(Prepare(Small()).ok());
  const auto first = Substitute(Large());
  jit::Problem almost = Large();
  almost.m = 2048;
  ASSERT_TRUE(Prepare(almost).ok());
  EXPECT_EQ(table_.Find(Large()), nullptr) << "it has to be chosen anew";
  const auto choice = table_.Choose(Large());
  ASSERT_TRUE(choice.ok());
  EXPECT_LT(choice->prepared->plan.predicted_cycles,
            first->plan.predicted_cycles);
}

TEST_F(KernelTableTest, OtherFamiliesDoNotStandIn) {
  ASSERT_TRUE(Prepare(Small()).ok());
  jit::Problem other = Large();
  other.a_order = jit::Order::kColumnMajor;
  EXPECT_EQ(Substitute(other), nullptr);
  other = Large();
  other.c_type = other.d_type = jit::DataType::kF32;
  EXPECT_EQ(Substitute(other), nullptr);
  other = Large();
  other.beta = 1;
  EXPECT_EQ(Substitute(other), nullptr);
}

// The exchanged product of a problem is of another family of kernels, and
// serves as well.
TEST_F(KernelTableTest, AKernelOfTheExchangedProductStandsIn) {
  // As many orders of A, B and D as there are; each with kernels of its own.
  for (const int orders : {0, 1, 2, 3, 4, 5, 6, 7}) {
    jit::Problem problem = Large();
    problem.a_order = static_cast<jit::Order>(orders & 1);
    problem.b_order = static_cast<jit::Order>(orders >> 1 & 1);
    problem.d_order = static_cast<jit::Order>(orders >> 2);
    for (const jit::Plan& plan : jit::RankPlans(problem, {}, 200)) {
      if (plan.config.split_k) continue;
      KernelTable table(device_, cache_, templates_);
      ASSERT_TRUE(
          table
              .Load(plan, KernelTable::Reach::kCompiler, absl::InfiniteFuture())
              .ok());
      const auto choice = table.Choose(problem);
      ASSERT_TRUE(choice.ok());
      EXPECT_NE(choice->prepared, nullptr) << NameOf(plan);
    }
  }
}

// The same request gives the same bits: sums split over CTAs are rounded
// elsewhere than whole ones.
TEST_F(KernelTableTest, SplitSumsNeitherStandInNorAreStoodInFor) {
  ASSERT_TRUE(Prepare(LongSum()).ok());
  ASSERT_TRUE(table_.Find(LongSum())->plan.config.split_k);
  EXPECT_EQ(Substitute(Large()), nullptr);
  table_.Evict(table_.Find(LongSum())->kernel->key);
  ASSERT_TRUE(Prepare(Small()).ok());
  EXPECT_EQ(Substitute(LongSum()), nullptr);
}

TEST_F(KernelTableTest, WaitingForACompileBeatsAVerySlowSubstitute) {
  ASSERT_TRUE(Prepare({.m = 64, .n = 8, .k = 64}).ok());
  EXPECT_NE(Substitute({.m = 4096, .n = 64, .k = 256}), nullptr);
  EXPECT_EQ(Substitute({.m = 65536, .n = 65536, .k = 65536}), nullptr);
}

TEST_F(KernelTableTest, EveryPropertyOfAProblemTellsShapesApart) {
  const jit::Problem base = Small();
  std::vector<jit::Problem> others;
  const auto other = [&](auto change) {
    others.push_back(base);
    change(others.back());
  };
  other([](auto& p) { p.m = 101; });
  other([](auto& p) { p.n = 201; });
  other([](auto& p) { p.k = 65; });
  other([](auto& p) { p.a_type = jit::DataType::kF16; });
  other([](auto& p) { p.b_type = jit::DataType::kF16; });
  other([](auto& p) { p.c_type = jit::DataType::kF16; });
  other([](auto& p) { p.d_type = jit::DataType::kF16; });
  other([](auto& p) { p.a_order = jit::Order::kColumnMajor; });
  other([](auto& p) { p.b_order = jit::Order::kColumnMajor; });
  other([](auto& p) { p.d_order = jit::Order::kColumnMajor; });
  other([](auto& p) { p.alpha = 0; });
  other([](auto& p) { p.beta = 1; });
  other([](auto& p) { p.accumulator = jit::DataType::kF16; });
  other([](auto& p) { p.precision = jit::Precision::kFast; });
  other([](auto& p) { p.clamps = true; });
  other([](auto& p) { p.bit_operation = jit::BitOperation::kXor; });
  other([](auto& p) { p.sparse = jit::Sparse::kA; });
  other([](auto& p) { p.quantization.group = 32; });
  other([](auto& p) { p.quantization.zero_points = true; });
  other([](auto& p) { p.invariant = true; });
  other([](auto& p) { p.epilogue.activation = jit::Activation::kRelu; });
  other([](auto& p) { p.batch = 2; });
  other([](auto& p) {
    p.batch = 2;
    p.a_broadcast = true;
  });
  for (size_t i = 0; i < others.size(); ++i) {
    EXPECT_FALSE(Shape(base) == Shape(others[i])) << i;
  }
  jit::Problem scaled = base;
  scaled.alpha = 3;
  jit::Problem doubled = base;
  doubled.alpha = 2;
  EXPECT_TRUE(Shape(scaled) == Shape(doubled));
  jit::Problem folded = base;
  folded.batch = 3;
  folded.b_broadcast = true;
  jit::Problem one = base;
  one.m *= 3;
  EXPECT_TRUE(Shape(folded) == Shape(one));
  // A kernel for an alpha of 1 does not multiply by it.
  EXPECT_FALSE(Shape(base) == Shape(scaled));
}

// Found by running: a plan for the one D is no plan for the other.
TEST_F(KernelTableTest, ResultsOfBothOrdersHavePlansOfTheirOwn) {
  ASSERT_TRUE(Prepare(Small()).ok());
  jit::Problem transposed = Small();
  transposed.d_order = jit::Order::kColumnMajor;
  EXPECT_EQ(table_.Find(transposed), nullptr);
}

TEST_F(KernelTableTest, PlansAreBounded) {
  jit::Problem problem = Small();
  problem.alpha = 0;
  ASSERT_TRUE(Prepare(problem).ok());
  size_t most = 0;
  for (int64_t k = 1; k <= 17000; ++k) {
    problem.k = k;  // Of no weight to the plan, but of the shape.
    ASSERT_TRUE(table_.Choose(problem)->prepared != nullptr);
    most = std::max(most, table_.shapes());
  }
  EXPECT_GT(most, 1000);
  EXPECT_LE(most, 16384);
}

TEST_F(KernelTableTest, TheKernelUsedLeastRecentlyMakesRoom) {
  const std::vector<jit::Plan> plans = jit::RankPlans(Large(), {}, 9);
  const auto load = [&](int i) {
    const auto loaded = table_.Load(plans[i], KernelTable::Reach::kCompiler,
                                    absl::InfiniteFuture());
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? loaded->kernel->key : "";
  };
  load(0);
  const auto used = table_.Choose(Large());  // Its plan is the first.
  ASSERT_FALSE(used->wanted);
  const std::string second = load(1);
  for (int i = 2; i < 8; ++i) load(i);
  EXPECT_EQ(device_.loaded(), 8);
  ASSERT_NE(table_.Find(Large()), nullptr);
  load(8);
  EXPECT_EQ(device_.loaded(), 8);
  const auto keys = table_.LoadedKeys();
  EXPECT_EQ(keys.size(), 8);
  EXPECT_EQ(std::count(keys.begin(), keys.end(), second), 0);
  EXPECT_EQ(table_.Find(Large()), used->prepared);
}

TEST_F(KernelTableTest, AKernelInUseIsUnloadedWhenItsProductEnds) {
  auto used = Prepare(Small());
  ASSERT_TRUE(used.ok());
  for (const jit::Plan& plan : jit::RankPlans(Large(), {}, 8)) {
    ASSERT_TRUE(
        table_.Load(plan, KernelTable::Reach::kCompiler, absl::InfiniteFuture())
            .ok());
  }
  EXPECT_EQ(table_.Find(Small()), nullptr);
  EXPECT_EQ(device_.loaded(), 9);
  used->reset();
  EXPECT_EQ(device_.loaded(), 8);
}

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

// What a device holds loaded asks the cache no more, whose directory would let
// it go first.
TEST_F(KernelTableTest, UsesOfLoadedKernelsAreNotedInTheCache) {
  const auto prepared = Prepare(Small());
  ASSERT_TRUE(prepared.ok());
  const std::string key = (*prepared)->kernel->key;
  const int before = cache_.notes(key);
  ASSERT_NE(table_.Find(Small()), nullptr);
  EXPECT_GT(cache_.notes(key), before);
  for (int i = 0; i < 1000; ++i) table_.Find(Small());
  EXPECT_GT(cache_.notes(key), before + 10);
  EXPECT_LT(cache_.notes(key), before + 500);  // Not at the cost of each use.
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

// A table that knows what a tuner found out.
class TunedKernelTableTest : public KernelTableTest {
 protected:
  // Records that `plan` is the best one of `problem`.
  void Record(const jit::Problem& problem, const jit::Plan& plan) {
    jit::TuningRecord record = jit::RecordOf(plan, problem);
    record.device = device_.description().product;
    ASSERT_TRUE(tuning_.Put(record).ok());
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
  const std::vector<jit::Plan> plans = jit::RankPlans(LongSum(), {}, 64);
  for (const jit::Plan& plan : plans) {
    if (plan.splits == plans[0].splits) continue;
    Record(LongSum(), plan);
    cache_.Reject(NameOf(plan));
    KernelOf(LongSum());
    EXPECT_EQ(tuned_.Find(LongSum())->plan.splits, plan.splits);
    return;
  }
  FAIL() << "another problem is needed";
}

// As after an update of the planner.
TEST_F(TunedKernelTableTest, ARecordOfAnUnknownKernelLeavesItsSplits) {
  const std::vector<jit::Plan> plans = jit::RankPlans(LongSum(), {}, 64);
  for (const jit::Plan& plan : plans) {
    if (plan.splits == plans[0].splits) continue;
    jit::TuningRecord record = jit::RecordOf(plan, LongSum());
    record.device = device_.description().product;
    record.kernel = "gemm_of_another_age";
    ASSERT_TRUE(tuning_.Put(record).ok());
    KernelOf(LongSum());
    EXPECT_EQ(tuned_.Find(LongSum())->plan.splits, plan.splits);
    return;
  }
  FAIL() << "another problem is needed";
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

TEST_F(KernelTableTest, TheShapesMostUsedAreThoseThatExecutedLongest) {
  const auto small = Prepare(Small());
  const auto large = Prepare(Large());
  ASSERT_TRUE(Prepare(LongSum()).ok());  // Never runs.
  for (int i = 0; i < 3; ++i) (*small)->use->Ran(absl::Microseconds(5));
  (*large)->use->Ran(absl::Microseconds(500));
  const auto used = table_.MostUsed(10);
  ASSERT_EQ(used.size(), 2u);
  EXPECT_EQ(used[0].problem.m, 4096);
  EXPECT_EQ(used[0].runs, 1);
  EXPECT_EQ(used[1].problem.m, 100);
  EXPECT_EQ(used[1].runs, 3);
  EXPECT_EQ(used[1].execute, absl::Microseconds(15));
  EXPECT_EQ(used[1].kernel, (*small)->kernel->name);
  EXPECT_EQ(table_.MostUsed(1).size(), 1u);
}

// What a shape has done does not begin anew with a better kernel.
TEST_F(KernelTableTest, UseSurvivesTheSubstitute) {
  ASSERT_TRUE(Prepare(Small()).ok());
  Substitute(Large())->use->Ran(absl::Microseconds(70));
  const auto own = Prepare(Large());
  ASSERT_TRUE(own.ok());
  (*own)->use->Ran(absl::Microseconds(30));
  const auto used = table_.MostUsed(1);
  ASSERT_EQ(used.size(), 1u);
  EXPECT_EQ(used[0].runs, 2);
  EXPECT_EQ(used[0].execute, absl::Microseconds(100));
}

TEST_F(KernelTableTest, KernelsLoadedAsideMakeNoneGiveWay) {
  std::vector<std::shared_ptr<const LoadedKernel>> aside;
  ASSERT_TRUE(Prepare(Small()).ok());
  for (const jit::Plan& plan : jit::RankPlans(Large(), {}, 20)) {
    auto loaded = table_.LoadAside(plan, KernelTable::Reach::kCompiler,
                                   absl::InfiniteFuture());
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    aside.push_back(std::move(loaded->kernel));
  }
  EXPECT_EQ(device_.loaded(), 21);
  EXPECT_NE(table_.Find(Small()), nullptr);
  EXPECT_EQ(table_.LoadedKeys().size(), 1);
  aside.clear();
  EXPECT_EQ(device_.loaded(), 1);
}

TEST_F(KernelTableTest, LooksIntoTheCacheWithoutCompiling) {
  const jit::Plan plan = jit::ChoosePlan(Large(), {});
  const auto look = [&] {
    return table_.Load(plan, KernelTable::Reach::kCache,
                       absl::InfiniteFuture());
  };
  EXPECT_EQ(look().status().code(), StatusCode::kNotFound);
  EXPECT_EQ(cache_.gets(), 0);
  const auto compiled = Prepare(Large());
  ASSERT_TRUE(compiled.ok());
  table_.Evict((*compiled)->kernel->key);
  const auto found = look();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->source, KernelSource::kMemory);
}

}  // namespace
}  // namespace gemmd::engine
