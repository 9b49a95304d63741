// The products of one call on an engine whose products wait at a gate.
#include "service/rpc/gather.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "tests/service/gate.h"
#include "tests/service/test_engine.h"

namespace gemmd::rpc {
namespace {

using testing::Answer;
using testing::Gate;
using testing::TestEngine;

class GatherTest : public ::testing::Test {
 protected:
  GatherTest() {
    EXPECT_TRUE(engine_.Multiply(TestEngine::Zeros()).Wait().ok());
  }
  ~GatherTest() override { gate_.Open(); }

  Answer<ProductResults> Run(std::vector<MatmulRequest> requests) {
    Answer<ProductResults> answer;
    MultiplyOneByOne(*engine_, std::move(requests), {}, answer.done());
    return answer;
  }

  static MatmulRequest Group(int64_t m = 2) {
    return {.product = TestEngine::Zeros(m)};
  }
  static std::vector<MatmulRequest> Groups(int count) {
    std::vector<MatmulRequest> groups;
    for (int i = 0; i < count; ++i) groups.push_back(Group());
    return groups;
  }

  Gate gate_;
  int64_t bad_rows_ = -1;  // A product of so many fails.
  std::atomic<int> launched_together_ = 0;
  std::shared_ptr<testing::Hooks> hooks_ = [this] {
    auto hooks = std::make_shared<testing::Hooks>();
    hooks->multiply = [this](const jit::Problem& problem, const auto&) {
      gate_.Pass();
      return problem.m == bad_rows_ ? absl::DataLossError("bad rows")
                                    : absl::OkStatus();
    };
    hooks->multiply_group = [this](size_t) {
      ++launched_together_;
      return absl::OkStatus();
    };
    return hooks;
  }();
  TestEngine engine_{{.executor = {.lanes = 16}}, {hooks_}};
};

TEST_F(GatherTest, AFewRunAtATimeAndAllAreAnswered) {
  const int before = gate_.arrived();
  gate_.Close();
  auto answer = Run(Groups(20));
  ASSERT_TRUE(gate_.WaitForArrivals(before + kGroupsAtOnce));
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(gate_.arrived(), before + kGroupsAtOnce);
  EXPECT_FALSE(answer.there());
  gate_.Open();
  const auto results = answer.Wait();
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 20u);
  for (const engine::ProductResult& result : *results) {
    EXPECT_NE(result.d, nullptr);
  }
  EXPECT_EQ(gate_.arrived(), before + 20);
}

TEST_F(GatherTest, ResultsStandInTheOrderOfTheGroups) {
  std::vector<MatmulRequest> groups;
  for (int64_t m = 0; m < 30; ++m) groups.push_back(Group(m));
  const auto results = Run(std::move(groups)).Wait();
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].d, nullptr);  // Of no rows.
  for (size_t m = 1; m < 30; ++m) {
    EXPECT_EQ((*results)[m].d->bytes().size(), m * 3 * sizeof(float));
  }
}

TEST_F(GatherTest, TheFirstErrorNamesItsGroupAndBeginsNothingMore) {
  // Its kernel is there, and it has time: the others are many.
  ASSERT_TRUE(engine_.Multiply(TestEngine::Zeros(5)).Wait().ok());
  bad_rows_ = 5;
  const int before = gate_.arrived();
  std::vector<MatmulRequest> groups = Groups(20000);
  groups[3] = Group(5);
  const absl::Status status = Run(std::move(groups)).Wait().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StartsWith(status.message(), "groups[3]: ")) << status;
  EXPECT_LT(gate_.arrived() - before, 20000);
}

TEST_F(GatherTest, WhatOneReadsAndAnotherWritesIsNotMixedUp) {
  const auto x = engine_.Tensor(), y = engine_.Tensor();
  const auto both = [&](const auto& to, const auto& then) {
    std::vector<MatmulRequest> groups(2);
    groups[0].product = TestEngine::Copy(x, to);
    groups[1].product = TestEngine::Copy(y, then);
    const int before = gate_.arrived();
    gate_.Close();
    Answer<ProductResults> answer;
    MultiplyAll(*engine_, std::move(groups), {}, answer.done());
    EXPECT_TRUE(gate_.WaitForArrivals(before + 1));
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_EQ(gate_.arrived(), before + 1);  // The other waits, or comes next.
    gate_.Open();
    EXPECT_TRUE(answer.Wait().ok());
  };
  both(y, x);
  both(y, y);
}

TEST_F(GatherTest, OnlyWhatIsIndependentIsLaunchedTogether) {
  const jit::Problem problem = TestEngine::Problem();
  const auto a = engine_.Create({.layout = problem.a()}).Wait().value();
  const auto b = engine_.Create({.layout = problem.b()}).Wait().value();
  const auto launches = [&](bool to_one) {
    const auto d = engine_.Tensor();
    std::vector<MatmulRequest> groups(12);
    for (MatmulRequest& group : groups) {
      group.product.problem = problem;
      group.product.a.tensor = a;
      group.product.b.tensor = b;
      group.product.d.tensor = to_one ? d : engine_.Tensor();
    }
    launched_together_ = 0;
    Answer<ProductResults> answer;
    MultiplyAll(*engine_, std::move(groups), {}, answer.done());
    EXPECT_TRUE(answer.Wait().ok());
    return launched_together_.load();
  };
  EXPECT_EQ(launches(false), 1);
  EXPECT_EQ(launches(true), 0);
}

// So that who asks again, as he may, does not have the first product twice.
TEST_F(GatherTest, OfARepeatableCallAllRunOnceOneHas) {
  const auto x = engine_.Tensor(), y = engine_.Tensor();
  std::vector<MatmulRequest> groups(2);
  groups[0].product = TestEngine::Copy(x, y);
  groups[1].product = TestEngine::Copy(y, x);
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  const int before = gate_.arrived();
  gate_.Close();
  Answer<ProductResults> answer;
  MultiplyAll(*engine_, std::move(groups),
              {.cancelled = cancelled, .is_repeatable = true}, answer.done());
  ASSERT_TRUE(gate_.WaitForArrivals(before + 1));
  *cancelled = true;
  // What waits beside it would be given up now.
  EXPECT_TRUE(testing::Eventually([&] { return engine_->waiting() == 0; }));
  gate_.Open();
  const absl::Status status = answer.Wait().status();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(gate_.arrived(), before + 2);
}

TEST_F(GatherTest, ProductsThatEndWhileTheyBeginTakeNoStack) {
  std::vector<MatmulRequest> groups;
  for (int i = 0; i < 200000; ++i) groups.push_back(Group(0));
  const auto results = Run(std::move(groups)).Wait();
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(results->size(), 200000u);
  EXPECT_TRUE(Run({}).Wait()->empty());
}

}  // namespace
}  // namespace gemmd::rpc
