// The kernels of a sequence: all are there before a lane is taken, each is got
// once, and uses are counted step by step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "service/engine/sequence.h"
#include "tests/service/sequence_fixture.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using testing::Answer;
using testing::SequenceTest;
using testing::TestEngine;

TEST_F(SequenceTest, KernelsAreThereBeforeALaneIsTaken) {
  const auto x = Filled(1);
  ASSERT_TRUE(Run({.steps = {Scale(x, 2, x)}}).ok());
  engine_.cache().Hold(true);
  Product cold = TestEngine::Zeros();
  cold.problem.c_type = cold.problem.d_type = jit::DataType::kBf16;
  cold.d.tensor =
      engine_->MakeTemporaries({cold.problem.d()}, 0, "").value()[0];
  Sequence sequence = {.rooms = {cold.d.tensor}};
  sequence.steps = {Scale(x, 3, x), cold};
  const int gets = engine_.cache().gets();
  Log();
  auto answer = Start(sequence);
  engine_.cache().WaitForGets(gets + 1);
  EXPECT_EQ(Log(), "");
  EXPECT_EQ(engine_.Elements(x)[0], 2);
  Log();
  engine_.cache().Hold(false);
  auto result = answer.Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->execution(0).source, KernelSource::kLoaded);
  EXPECT_EQ(result->execution(1).source, KernelSource::kCompiled);
}

TEST_F(SequenceTest, AKernelThatCannotBeHadNamesItsStepAndNothingRuns) {
  const auto x = Filled(1);
  ASSERT_TRUE(Run({.steps = {Scale(x, 2, x)}}).ok());
  engine_.cache().Fail(absl::FailedPreconditionError("no NVRTC"));
  Product cold = TestEngine::Zeros();
  cold.problem.c_type = cold.problem.d_type = jit::DataType::kBf16;
  const auto failed = Run({.steps = {Scale(x, 3, x), cold}});
  EXPECT_EQ(failed.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StartsWith(failed.status().message(), "steps[1]: no NVRTC"))
      << failed.status();
  EXPECT_EQ(engine_.Elements(x)[0], 2);
  EXPECT_EQ(engine_->waiting(), 0);
}

// Each twice; d_types tell the kernels apart.
class ColdSequenceTest : public SequenceTest {
 protected:
  Sequence Cold() {
    Sequence sequence;
    for (const jit::DataType type :
         {jit::DataType::kBf16, jit::DataType::kF16, jit::DataType::kF32,
          jit::DataType::kBf16, jit::DataType::kF16, jit::DataType::kF32}) {
      Product step = TestEngine::Zeros();
      jit::Problem& problem = step.problem;
      problem.c_type = problem.d_type = type;
      step.d.tensor = engine_->MakeTemporaries({problem.d()}, 0, "").value()[0];
      sequence.rooms.push_back(step.d.tensor);
      sequence.steps.push_back(std::move(step));
    }
    return sequence;
  }
};

TEST_F(ColdSequenceTest, AllKernelsAreUnderWayAtOnceEachOnce) {
  engine_.cache().Hold(true);
  const int gets = engine_.cache().gets();
  auto answer = Start(Cold());
  engine_.cache().WaitForGets(gets + 3);
  EXPECT_FALSE(answer.there());
  engine_.cache().Hold(false);
  auto result = answer.Wait();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(engine_.cache().gets(), gets + 3);
  EXPECT_EQ(result->execution(0).source, KernelSource::kCompiled);
  for (size_t i = 0; i < 3; ++i) {
    // One that was found as soon as it was loaded may not be known as compiled.
    EXPECT_NE(result->execution(i).source, KernelSource::kNone) << i;
    EXPECT_EQ(result->execution(i + 3).source, KernelSource::kLoaded);
  }
  EXPECT_EQ(engine_->waiting(), 0);
}

TEST_F(ColdSequenceTest, StepsOfOneShapeAreCountedOneByOne) {
  ASSERT_TRUE(Run(Cold()).ok());
  KernelTable& kernels = engine_->kernels(0);
  const int64_t hits = kernels.hits();
  const auto used = [&] {
    std::vector<int64_t> runs;
    for (const auto& use : kernels.MostUsed(8)) runs.push_back(use.runs);
    return runs;
  };
  EXPECT_THAT(used(), ::testing::Each(2));
  auto result = Run(Cold());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(kernels.hits(), hits + 6);
  EXPECT_THAT(used(), ::testing::ElementsAre(4, 4, 4));
  // Those of one shape ran alike.
  ASSERT_EQ(result->executions.size(), 3u);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(result->steps[i].execution, i % 3);
}

TEST_F(ColdSequenceTest, WhatTheFirstStepCompiledIsLoadedForTheOthers) {
  Sequence sequence = Cold();
  for (Product& step : sequence.steps) step = sequence.steps[0];
  auto result = Run(sequence);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->execution(0).source, KernelSource::kCompiled);
  ASSERT_EQ(result->executions.size(), 2u);
  for (size_t i = 1; i < 6; ++i) {
    EXPECT_EQ(result->execution(i).source, KernelSource::kLoaded);
  }
}

// More than are under way at a time.
TEST_F(ColdSequenceTest, AManyFoldSequenceGetsAllItsKernels) {
  Sequence sequence;
  for (int i = 0; i < 40; ++i) {
    for (Product& step : Cold().steps) {
      step.problem.m = 64 + 8 * i;
      step.d.tensor =
          engine_->MakeTemporaries({step.problem.d()}, 0, "").value()[0];
      sequence.rooms.push_back(step.d.tensor);
      sequence.steps.push_back(std::move(step));
    }
  }
  const size_t steps = sequence.steps.size();
  const auto result = Run(std::move(sequence));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps.size(), steps);
  for (size_t i = 0; i < steps; ++i) {
    EXPECT_NE(result->execution(i).source, KernelSource::kNone);
  }
}

// What is cancelled leaves compiles that have not begun.
TEST_F(ColdSequenceTest, WhoHasGoneCompilesNoMore) {
  engine_.cache().Hold(true);
  const int gets = engine_.cache().gets();
  std::vector<Answer<SequenceResult>> others;
  for (int i = 0; i < 4; ++i) {  // As many as threads that compile.
    Sequence other = Cold();
    other.steps.resize(1);
    other.steps[0].problem.m += 64 * (i + 1);
    other.steps[0].d.tensor =
        engine_->MakeTemporaries({other.steps[0].problem.d()}, 0, "")
            .value()[0];
    other.rooms = {other.steps[0].d.tensor};
    others.push_back(Start(std::move(other)));
  }
  auto answer = Start(Cold(), {.cancelled = cancelled_});
  *cancelled_ = true;
  EXPECT_EQ(answer.Wait().status().code(), StatusCode::kCancelled);
  engine_.cache().Hold(false);
  for (auto& other : others) other.Wait().IgnoreError();
  EXPECT_LE(engine_.cache().gets(), gets + 4);
}

}  // namespace
}  // namespace gemmd::engine
