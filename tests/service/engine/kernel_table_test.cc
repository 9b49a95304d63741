// What a device's kernel table answers while kernels come and go.
#include "service/engine/kernel_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "jit/plan/planner.h"
#include "jit/problem/problem_line.h"
#include "tests/service/deriving_device.h"
#include "tests/service/kernel_table_fixture.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using testing::KernelTableTest;
using testing::Large;
using testing::LongSum;
using testing::NameOf;
using testing::Small;

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

// What the exchange turns around besides: a vector along a side of D.
TEST_F(KernelTableTest, AKernelStandsInExchangedWithWhatLiesAlongASide) {
  jit::Problem biased = Large();
  biased.epilogue.bias = jit::Extent::kColumn;
  jit::Problem scaled = Large();
  scaled.epilogue.a_scale = jit::Extent::kTensor;
  scaled.epilogue.b_scale = jit::Extent::kColumn;
  for (const jit::Problem& problem : {biased, scaled}) {
    bool exchanged[] = {false, false};
    for (const jit::Plan& plan : jit::RankPlans(problem, {}, 200)) {
      if (plan.config.split_k) continue;
      exchanged[plan.exchanged] = true;
      KernelTable table(device_, cache_, templates_);
      ASSERT_TRUE(
          table
              .Load(plan, KernelTable::Reach::kCompiler, absl::InfiniteFuture())
              .ok());
      const auto choice = table.Choose(problem);
      ASSERT_TRUE(choice.ok());
      EXPECT_NE(choice->prepared, nullptr) << NameOf(plan);
    }
    EXPECT_TRUE(exchanged[0] && exchanged[1]);
  }
}

// Scales by block are A's by row and B's by block, which no exchange turns
// around.
TEST_F(KernelTableTest, NoKernelWithScalesByBlockStandsInExchanged) {
  jit::Problem problem = {.m = 16, .n = 7168, .k = 512};
  problem.a_type = problem.b_type = jit::DataType::kE4m3;
  problem.b_order = jit::Order::kColumnMajor;
  problem.epilogue.a_scale = problem.epilogue.b_scale = jit::Extent::kBlock;
  for (const jit::Order order :
       {jit::Order::kColumnMajor, jit::Order::kRowMajor}) {
    KernelTable table(device_, cache_, templates_);
    problem.d_order = order;
    ASSERT_TRUE(testing::Prepare(table, problem).ok());
    jit::Problem other = problem;
    other.m = 32;
    const auto same = table.Choose(other);
    ASSERT_TRUE(same.ok()) << same.status();
    ASSERT_NE(same->prepared, nullptr);
    EXPECT_FALSE(same->prepared->plan.exchanged);
    other.d_order = order == jit::Order::kRowMajor ? jit::Order::kColumnMajor
                                                   : jit::Order::kRowMajor;
    const auto turned = table.Choose(other);
    ASSERT_TRUE(turned.ok()) << turned.status();
    EXPECT_EQ(turned->prepared, nullptr);
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

// On a device that derives forms.
class FormsOfPlansTest : public ::testing::Test {
 protected:
  static jit::Problem Bytes(jit::Order a_order, jit::Order b_order) {
    jit::Problem problem = {.m = 64, .n = 64, .k = 64};
    problem.a_type = problem.b_type = jit::DataType::kS8;
    problem.c_type = problem.d_type = jit::DataType::kS32;
    problem.a_order = a_order;
    problem.b_order = b_order;
    return problem;
  }
  static constexpr jit::Order kRows = jit::Order::kRowMajor;
  static constexpr jit::Order kColumns = jit::Order::kColumnMajor;

  const jit::TemplateLibrary templates_ = jit::TemplateLibrary::Embedded();
  testing::DerivingDevice device_{1 << 20};
  testing::FakeCache cache_;
  KernelTable table_{device_, cache_, templates_};
};

TEST_F(FormsOfPlansTest, AreLoadedOnceForAllKernels) {
  ASSERT_TRUE(testing::Prepare(table_, Bytes(kRows, kColumns)).ok());
  EXPECT_EQ(cache_.gets(), 1);
  ASSERT_TRUE(testing::Prepare(table_, Bytes(kColumns, kRows)).ok());
  EXPECT_EQ(cache_.gets(), 2) << "both operands are of 8 bits";
  ASSERT_TRUE(testing::Prepare(table_, Bytes(kRows, kRows)).ok());
  EXPECT_EQ(cache_.gets(), 2);
}

// Neither the kernel itself nor one that stands in serves without them.
TEST_F(FormsOfPlansTest, AreThereBeforeAKernelServes) {
  ASSERT_TRUE(testing::Prepare(table_, Bytes(kRows, kColumns)).ok());
  jit::Problem large = Bytes(kRows, kRows);
  large.m = large.n = 512;
  for (const jit::Problem& problem : {Bytes(kRows, kRows), large}) {
    const auto choice = table_.Choose(problem);
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(choice->prepared, nullptr);
    EXPECT_TRUE(choice->wanted);
    EXPECT_EQ(table_.Find(problem), nullptr);
    EXPECT_FALSE(table_.FallBack(problem).ok());
  }
  ASSERT_TRUE(testing::Prepare(table_, Bytes(kRows, kRows)).ok());
  EXPECT_NE(table_.Choose(large)->prepared, nullptr);
}

TEST_F(FormsOfPlansTest, AreMadeAnewOnceWhereTheDeviceRefusesACubin) {
  ASSERT_TRUE(testing::Prepare(table_, Bytes(kRows, kColumns)).ok());
  cache_.DamageNext();
  EXPECT_TRUE(testing::Prepare(table_, Bytes(kRows, kRows)).ok());
  EXPECT_EQ(cache_.quarantined(), 1);
}

TEST_F(FormsOfPlansTest, AreOfTheTypesOfTheOperands) {
  int seen = 0;
  for (const char* line :
       {"s8 NN 64 64 64", "tf32 NT 64 64 64", "f32 TN 64 64 64",
        "b1 NN 64 64 128", "e4m3 TT 64 64 64", "sparse-bf16 TN 64 64 64",
        "bf16-sparse NN 64 64 64", "sparse-s8 TT 64 64 64",
        "s4-f16 TT 64 64 64 group=32", "bf16-e4m3 NN 64 64 64"}) {
    const jit::Problem problem = jit::ParseProblemLine(line).value();
    for (const jit::Plan& plan : jit::RankPlans(problem, {}, 1000)) {
      std::multiset<std::pair<jit::Form, int>> derived, expected;
      for (const DerivedForm& form : DerivedForms(plan)) {
        derived.emplace(form.form, jit::BitsOf(form.type));
      }
      const auto expect = [&](jit::Form form, jit::DataType type) {
        if (form == jit::Form::kStored) return;
        expected.emplace(form, jit::BitsOf(type));
        ++seen;
      };
      expect(plan.a_form, problem.a_type);
      expect(plan.b_form, problem.b_type);
      ASSERT_EQ(derived, expected) << line;
    }
  }
  EXPECT_GT(seen, 500);
}

}  // namespace
}  // namespace gemmd::engine
