// Products in order on one lane: what they read and write, what they wait for,
// and what is left when one of them fails.
#include "service/engine/sequence.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "service/device/lost.h"
#include "tests/service/deriving_device.h"
#include "tests/service/sequence_fixture.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using testing::Answer;
using testing::First;
using testing::SequenceTest;
using testing::TestEngine;

TEST_F(SequenceTest, ResultsGoFromStepToStepInOrder) {
  const auto x = Filled(1), y = Filled(100);
  const auto h = Room(), g = Room();
  Sequence sequence = {.rooms = {h, g}};
  sequence.steps = {Scale(x, 2, h), Scale(h, 3, y), Scale(y, 5, g)};
  sequence.steps[2].d.is_returned = true;
  auto result = Run(std::move(sequence));
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->steps.size(), 3u);
  EXPECT_EQ(First(*result->steps[2].d), 30);
  EXPECT_EQ(result->steps[0].d, nullptr);
  EXPECT_EQ(engine_.Elements(y)[0], 6) << "a tensor has what a step wrote";
  EXPECT_EQ(result->execution(1).source, KernelSource::kLoaded);
  EXPECT_GT(result->phases.execute, absl::ZeroDuration());
}

TEST_F(SequenceTest, ALaneAllocatesFirstAndWaitsOnce) {
  const auto x = Filled(1);
  ASSERT_TRUE(Run({.steps = {Scale(x, 2, x)}}).ok());
  const auto h = Room(), g = Room();
  Sequence sequence = {.rooms = {h, g}};
  sequence.steps = {Scale(x, 2, h), Scale(h, 3, g), Scale(g, 1, h)};
  sequence.steps[2].d.is_returned = true;
  Log();
  ASSERT_TRUE(Run(std::move(sequence)).ok());
  EXPECT_EQ(Log(), "aammmsd");
}

TEST_F(SequenceTest, OperandsAreSentOnce) {
  const std::string bytes = testing::Fill(
      TestEngine::Problem().d(), 3, [](int64_t, int64_t) { return 7.0f; });
  const absl::Span<const char> piece(bytes);
  const auto x = Room(), h = Room();
  Sequence sequence = {.rooms = {x, h}};
  sequence.operands.push_back({.name = "x",
                               .bytes = {.pieces = {piece}, .pitch_bytes = 12},
                               .room = x});
  sequence.steps = {Scale(x, 1, h), Scale(x, 2, h)};
  sequence.steps[1].d.is_returned = true;
  Log();
  auto result = Run(std::move(sequence));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(First(*result->steps[1].d), 14);
  EXPECT_EQ(Log(), "aaummsd");
}

TEST_F(SequenceTest, StepsThatWriteNothingNeedNoKernel) {
  Product nothing = TestEngine::Zeros(0);
  nothing.problem.epilogue.measures_amax = true;
  auto result = Run({.steps = {{nothing}, {nothing}}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps[1].amax, 0);
  EXPECT_EQ(result->execution(1).device, "fake:0");
  EXPECT_EQ(engine_.cache().gets(), 0);
}

// A product that reads or writes one of its tensors comes before it or after
// it, on whatever lane.
TEST_F(SequenceTest, ItsTensorsAreItsOwnUntilItsEnd) {
  const auto x = Filled(1), y = Filled(2), z = Filled(4), other = Filled(3);
  const int before = gate_.arrived();
  gate_.Close();
  auto running =
      Start({.steps = {Scale(x, 2, x), Scale(x, 2, y), Scale(z, 1, x)}});
  ASSERT_TRUE(gate_.WaitForArrivals(before + 1));
  auto writes = engine_.Multiply(TestEngine::Copy(other, y));
  auto reads = engine_.Multiply(TestEngine::Copy(x, other));
  auto writes_input = engine_.Multiply(TestEngine::Copy(z, z));
  auto free = engine_.Multiply(TestEngine::Zeros());
  ASSERT_TRUE(gate_.WaitForArrivals(before + 2)) << "of the free one";
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(gate_.arrived(), before + 2);
  gate_.Open();
  EXPECT_TRUE(running.Wait().ok());
  EXPECT_TRUE(writes.Wait().ok());
  EXPECT_TRUE(writes_input.Wait().ok());
  EXPECT_TRUE(reads.Wait().ok());
  EXPECT_TRUE(free.Wait().ok());
  EXPECT_EQ(engine_.Elements(other)[0], 4) << "x as the sequence left it";
}

TEST_F(SequenceTest, ASecondResultIsLockedAsTheFirst) {
  const auto x = Filled(1), y = Filled(2), z = Filled(3), other = Filled(4);
  const auto writes_two = [&] {
    Product product = Scale(x, 2, z);
    product.problem.epilogue.writes_auxiliary = true;
    product.auxiliary.tensor = y;
    return product;
  };
  for (const bool alone : {false, true}) {
    const int before = gate_.arrived();
    gate_.Close();
    Answer<SequenceResult> running;
    TestEngine::MultiplyAnswer product;
    if (alone) {
      product = engine_.Multiply(writes_two());
    } else {
      running = Start({.steps = {writes_two()}});
    }
    ASSERT_TRUE(gate_.WaitForArrivals(before + 1));
    auto reads = engine_.Multiply(TestEngine::Copy(y, other));
    auto free = engine_.Multiply(TestEngine::Zeros());
    ASSERT_TRUE(gate_.WaitForArrivals(before + 2)) << "of the free one";
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_EQ(gate_.arrived(), before + 2) << alone;
    gate_.Open();
    EXPECT_TRUE(alone ? product.Wait().ok() : running.Wait().ok());
    EXPECT_TRUE(reads.Wait().ok());
    EXPECT_TRUE(free.Wait().ok());
    EXPECT_EQ(engine_.Elements(other)[0], 2) << alone;
    EXPECT_EQ(engine_.Elements(z)[0], 2) << alone;
  }
}

TEST_F(SequenceTest, ATensorOfAnotherRequestIsWaitedForOffTheLanes) {
  const auto x = Filled(1);
  const int before = gate_.arrived();
  gate_.Close();
  auto writer = engine_.Multiply(TestEngine::Copy(x, x));
  ASSERT_TRUE(gate_.WaitForArrivals(before + 1));
  auto waiting = Start({.steps = {Scale(x, 2, x)}});
  auto late = Start({.steps = {Scale(x, 2, x)}},
                    {.deadline = absl::Now() + absl::Milliseconds(5)});
  auto free = engine_.Multiply(TestEngine::Zeros());
  EXPECT_TRUE(gate_.WaitForArrivals(before + 2)) << "it has found a lane";
  EXPECT_EQ(late.Wait().status().code(), StatusCode::kDeadlineExceeded);
  gate_.Open();
  EXPECT_TRUE(writer.Wait().ok());
  EXPECT_TRUE(waiting.Wait().ok());
  EXPECT_TRUE(free.Wait().ok());
  EXPECT_EQ(engine_.Elements(x)[0], 2);
}

TEST_F(SequenceTest, AStepThatFailsIsNamedAndTheLaneIsDone) {
  const auto x = Filled(1), y = Filled(2), z = Filled(3);
  products_ = 0;
  fails_at_ = 2;
  Log();
  const auto failed =
      Run({.steps = {Scale(x, 2, y), Scale(x, 3, z), Scale(x, 4, x)}});
  EXPECT_EQ(failed.status().code(), StatusCode::kInternal);
  EXPECT_EQ(failed.status().message(), "steps[1]: broken");
  EXPECT_EQ(Log(), "ms") << "what was enqueued has ended";
  fails_at_ = 0;
  EXPECT_EQ(engine_.Elements(y)[0], 2) << "as promised: of the steps before";
  EXPECT_EQ(engine_.Elements(z)[0], 3);
  EXPECT_EQ(engine_->served(0).counts.failures, 1);
  EXPECT_TRUE(Run({.steps = {Scale(x, 2, y), Scale(y, 2, z)}}).ok());
}

TEST_F(SequenceTest, ALostDeviceIsNoticedWhicheverStepFindsIt) {
  EXPECT_TRUE(device::IsLost(OfStep(3, device::LostError("gone"))));
}

TEST_F(SequenceTest, CancelledMidwayGoesNoFurther) {
  const auto x = Filled(1), y = Filled(2), z = Filled(3);
  products_ = 0;
  cancels_at_ = 1;
  const int64_t before = engine_->tensors().bytes();
  Sequence sequence = {.rooms = {Room()}};
  sequence.steps = {Scale(x, 2, y), Scale(y, 3, z)};
  auto answer = Start(std::move(sequence), {.cancelled = cancelled_});
  const auto status = answer.Wait().status();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_TRUE(absl::StartsWith(status.message(), "steps[1]: ")) << status;
  EXPECT_EQ(products_, 1);
  EXPECT_EQ(engine_.Elements(z)[0], 3);
  EXPECT_EQ(engine_->tensors().bytes(), before) << "nothing is held";
  EXPECT_EQ(engine_->waiting(), 0);
}

TEST_F(SequenceTest, WhatWouldTakeTooLongIsRefused) {
  Product large = TestEngine::Zeros();
  large.problem = {.m = 40000, .n = 40000, .k = 40000};
  Sequence sequence;
  for (int i = 0; i < 20; ++i) sequence.steps.push_back({large});
  const auto refused = Run(std::move(sequence));
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("allowed: 2s (--max-work)"),
            std::string::npos)
      << refused.status();
  EXPECT_EQ(engine_->waiting(), 0);
}

TEST_F(SequenceTest, TheWholeIsWhatAnIdentityIsChargedWith) {
  const auto x = Filled(1);
  ASSERT_TRUE(Run({.steps = {Scale(x, 2, x)}}).ok());
  gate_.Close();
  const int before = gate_.arrived();
  auto one = Start({.steps = {Scale(x, 2, x)}});
  ASSERT_TRUE(gate_.WaitForArrivals(before + 1));
  const int64_t cost_of_one = engine_->served(0).products->load();
  Sequence sequence;
  for (int i = 0; i < 100; ++i) sequence.steps.push_back(Scale(x, 1, x));
  auto many = Start(std::move(sequence));
  const int64_t cost_of_many =
      engine_->served(0).products->load() - cost_of_one;
  EXPECT_GT(cost_of_many, 10 * cost_of_one);
  EXPECT_LE(cost_of_many, 100 * cost_of_one);
  gate_.Open();
  EXPECT_TRUE(one.Wait().ok());
  EXPECT_TRUE(many.Wait().ok());
}

// A form that was kept for others is not one of what a step has just written.
TEST(SequenceFormsTest, WrittenTensorsAreDerivedAnew) {
  testing::DerivingDevice device(1 << 20);
  Forms forms(device, 0,
              [](int64_t) { return std::make_shared<const int>(0); });
  testing::AddForm(forms, device, {jit::Form::kTransposed, jit::DataType::kS8});
  const auto lane = device.CreateLane().value();
  auto prepared = std::make_shared<Prepared>();
  auto kernel = std::make_shared<LoadedKernel>();
  jit::CompiledKernel compiled;
  compiled.cubin = "cubin";
  kernel->kernel = device.Load(compiled, {}).value();
  prepared->kernel = std::move(kernel);
  prepared->forms = &forms;
  prepared->plan.a_form = jit::Form::kTransposed;

  jit::Problem problem = {.m = 32, .n = 32, .k = 32};
  problem.a_type = problem.b_type = problem.c_type = problem.d_type =
      jit::DataType::kS8;
  problem.a_order = problem.d_order = jit::Order::kColumnMajor;
  const auto tensor = [&](const jit::MatrixLayout& layout) {
    return std::make_shared<Tensor>(
        Tensor::Identity{.handle = TensorStore::NewHandle()},
        Tensor::Contents{QuotaHold(), lane->Allocate(layout).value()});
  };
  const auto a = tensor(problem.a()), b = tensor(problem.b()),
             d = tensor(problem.d());
  const auto run = [&](std::vector<Product> steps) {
    Sequence sequence = {.steps = std::move(steps)};
    MarkChanges(sequence);
    const std::vector<const Prepared*> all(sequence.steps.size(),
                                           prepared.get());
    Phases phases;
    const int before = device.derivations();
    EXPECT_TRUE(RunSequence(*lane, all, sequence, {}, phases, [] {}).ok());
    return device.derivations() - before;
  };
  const auto step = [&](std::shared_ptr<Tensor> from,
                        std::shared_ptr<Tensor> to) {
    return Product{.problem = problem,
                   .a = {.tensor = std::move(from)},
                   .b = {.tensor = b},
                   .d = {.tensor = std::move(to)}};
  };
  EXPECT_EQ(run({step(a, d), step(a, d)}), 1) << "of what nobody writes, once";
  EXPECT_EQ(run({step(a, d)}), 0);
  EXPECT_EQ(run({step(a, d), step(d, a), step(a, d)}), 3);
}

}  // namespace
}  // namespace gemmd::engine
