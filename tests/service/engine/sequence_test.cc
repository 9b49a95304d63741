// Products in order on one lane: what they read and write, what they wait for,
// and what is left when one of them fails.
#include "service/engine/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "service/device/lost.h"
#include "service/engine/cost.h"
#include "tests/service/deriving_device.h"
#include "tests/service/gate.h"
#include "tests/service/test_engine.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using testing::Answer;
using testing::Eventually;
using testing::Gate;
using testing::TestEngine;

class SequenceTest : public ::testing::Test {
 protected:
  ~SequenceTest() override {
    gate_.Open();
    engine_.cache().Hold(false);
  }

  // What lanes do from now on, a letter a step; products wait at the gate.
  std::shared_ptr<testing::Hooks> Hooks() {
    auto hooks = std::make_shared<testing::Hooks>();
    const auto note = [this](char what) {
      std::lock_guard lock(mutex_);
      log_.push_back(what);
      return absl::OkStatus();
    };
    hooks->allocate = [note] { return note('a'); };
    hooks->upload = [note] { return note('u'); };
    hooks->download = [note] { return note('d'); };
    hooks->synchronize = [note] { return note('s'); };
    hooks->multiply = [this, note](const auto&, const auto&) {
      gate_.Pass();
      const int product = ++products_;
      if (product == fails_at_) return absl::InternalError("broken");
      if (product == cancels_at_) *cancelled_ = true;
      return note('m');
    };
    return hooks;
  }
  std::string Log() {
    std::lock_guard lock(mutex_);
    return std::exchange(log_, "");
  }

  std::shared_ptr<Tensor> Room() {
    const jit::MatrixLayout layout = TestEngine::Problem().d();
    return engine_->MakeTemporaries({layout}, 0, "").value()[0];
  }
  // A tensor whose elements are all `value`.
  std::shared_ptr<Tensor> Filled(float value) {
    auto tensor = engine_.Tensor();
    auto upload = engine_->BeginUpload(tensor).value();
    EXPECT_TRUE(engine_.Send(upload, value).Wait().ok());
    EXPECT_TRUE(engine_.Finish(upload).Wait().ok());
    return tensor;
  }
  // to = factor * from.
  static Product Scale(std::shared_ptr<Tensor> from, float factor,
                       std::shared_ptr<Tensor> to) {
    Product step = TestEngine::Copy(std::move(from), std::move(to));
    step.problem.beta = factor;
    step.d.pitch_bytes = step.problem.d().width_bytes();
    return step;
  }

  Answer<SequenceResult> Start(Sequence sequence, RequestContext context = {}) {
    Answer<SequenceResult> answer;
    engine_->RunInOrder(std::move(sequence), 0, std::move(context),
                        answer.done());
    return answer;
  }
  absl::StatusOr<SequenceResult> Run(Sequence sequence) {
    return Start(std::move(sequence)).Wait();
  }

  Gate gate_;
  std::mutex mutex_;
  std::string log_;
  std::atomic<int> products_ = 0;
  std::atomic<int> fails_at_ = 0;
  std::atomic<int> cancels_at_ = 0;
  std::shared_ptr<std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);
  TestEngine engine_{{.executor = {.lanes = 5}}, {Hooks()}};
};

float First(device::HostBuffer& buffer) {
  return testing::Get(jit::DataType::kF32, buffer.bytes().data(), 0);
}

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

// Of a client's, who is to have it back with the answer.
class SharedRegion final : public device::Region {
 public:
  explicit SharedRegion(int device = kHost) : device_(device) {}
  absl::Span<char> bytes() const override { return absl::MakeSpan(bytes_); }
  bool pinned() const override { return false; }
  int device() const override { return device_; }

 private:
  const int device_;
  mutable std::string bytes_ = std::string(4096, '.');
};

class SharedSequenceTest : public SequenceTest {
 protected:
  void Put(float value) {
    const std::string bytes = testing::Fill(
        TestEngine::Problem().d(), 3, [=](int64_t, int64_t) { return value; });
    bytes.copy(region_->bytes().data(), bytes.size());
  }
  float Get(int64_t offset) const {
    return testing::Get(jit::DataType::kF32, region_->bytes().data() + offset,
                        0);
  }
  // h = 2 x, which goes to the region at 24 * n too, and g = 3 h.
  Sequence Steps() {
    const auto x = Room(), h = Room(), g = Room();
    Sequence sequence = {.rooms = {x, h, g}};
    sequence.operands.push_back(
        {.name = "x",
         .bytes = {.pieces = {{region_->bytes().data(), 24}},
                   .pitch_bytes = 12,
                   .region = region_},
         .room = x});
    sequence.steps = {Scale(x, 2, h), Scale(h, 3, g)};
    return sequence;
  }
  void Share(Product& step, int64_t offset) {
    step.d.place = {region_, offset};
  }

  const std::shared_ptr<SharedRegion> region_ =
      std::make_shared<SharedRegion>();
};

TEST_F(SharedSequenceTest, ItIsReadFirstAndWrittenLast) {
  Put(7);
  Sequence sequence = Steps();
  sequence.steps.push_back(sequence.steps[0]);  // Reads x again.
  sequence.steps[2].d.tensor = Room();
  sequence.rooms.push_back(sequence.steps[2].d.tensor);
  Share(sequence.steps[0], 0);
  Share(sequence.steps[1], 24);
  Share(sequence.steps[2], 48);
  Log();
  const auto result = Run(std::move(sequence));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Get(0), 14);
  EXPECT_EQ(Get(24), 42);
  EXPECT_EQ(Get(48), 14) << "of x as it was";
  EXPECT_EQ(region_->bytes()[72], '.');
  EXPECT_EQ(result->steps[0].d, nullptr);
  const std::string log = Log();
  EXPECT_EQ(log.substr(log.find('u')), "ummmsddd");
  EXPECT_EQ(region_.use_count(), 1) << "who has the answer has it alone";
}

// Where results are not written in place either: a later step reads the room.
TEST_F(SharedSequenceTest, MemoryOfADeviceIsCopied) {
  const auto there = std::make_shared<SharedRegion>(0);
  const auto x = Filled(5);
  const auto h = Room(), g = Room();
  Sequence sequence = {.rooms = {h, g}};
  sequence.steps = {Scale(x, 2, h), Scale(h, 3, g)};
  for (int i = 0; i < 2; ++i) sequence.steps[i].d.place = {there, 24 * i};
  const auto result = Run(std::move(sequence));
  ASSERT_TRUE(result.ok()) << result.status();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(
        testing::Get(jit::DataType::kF32, there->bytes().data() + 24 * i, 0),
        i == 0 ? 10 : 30);
  }
}

// Two of the same operand's, which is brought once, and then its room has
// what the first step made.
TEST_F(SharedSequenceTest, CopiesAreCountedWhereTheyAreMadeFor) {
  const auto there = std::make_shared<SharedRegion>(0);
  Sequence sequence = Steps();
  const auto x = sequence.rooms[0], h = sequence.rooms[1];
  sequence.operands[0].bytes.region = there;
  sequence.steps = {Scale(x, 2, h), Scale(x, 2, x), Scale(x, 2, h)};
  sequence.steps[1].d.place = {there, 24};
  sequence.steps[2].d.is_returned = true;
  const std::vector<Paths> paths = PathsOf(sequence);
  ASSERT_EQ(paths.size(), 3u);
  EXPECT_EQ(paths[0].c, Path::kDeviceVmm);
  EXPECT_EQ(paths[0].d, Path::kTensor);
  EXPECT_EQ(paths[0].copies, 1);
  EXPECT_EQ(paths[1].c, Path::kDeviceVmm);
  EXPECT_EQ(paths[1].d, Path::kDeviceVmm);
  EXPECT_EQ(paths[1].copies, 1) << "of the result";
  EXPECT_EQ(paths[2].c, Path::kTensor);
  EXPECT_EQ(paths[2].d, Path::kInline);
  EXPECT_EQ(paths[2].copies, 0);
}

TEST_F(SharedSequenceTest, WhatIsBroughtFromTheDeviceIsCharged) {
  Sequence sequence = Steps();
  const int64_t bytes = TestEngine::Problem().d().device_bytes();
  EXPECT_EQ(ReturnedBytes(sequence), 0) << "results stay in rooms";
  sequence.steps[0].d.is_returned = true;
  EXPECT_EQ(ReturnedBytes(sequence), bytes);
  Share(sequence.steps[1], 24);
  EXPECT_EQ(ReturnedBytes(sequence), 2 * bytes);
  sequence.steps[1].d.place.region = std::make_shared<SharedRegion>(0);
  EXPECT_EQ(ReturnedBytes(sequence), bytes) << "it is copied within it";
}

TEST_F(SharedSequenceTest, AStepThatFailsLeavesItAsItWas) {
  Put(7);
  Sequence sequence = Steps();
  Share(sequence.steps[0], 24);
  Share(sequence.steps[1], 48);
  products_ = 0;
  fails_at_ = 2;
  Log();
  EXPECT_EQ(Run(std::move(sequence)).status().message(), "steps[1]: broken");
  EXPECT_EQ(Log(), "aaaums") << "nothing is downloaded";
  EXPECT_EQ(Get(0), 7);
  EXPECT_EQ(region_->bytes()[24], '.');
}

TEST_F(SharedSequenceTest,
       IsAnsweredBeforeItsEndWhereNothingOfTheClientsIsUsed) {
  EXPECT_TRUE(MayBeAbandoned(Sequence()));
  Sequence sequence = Steps();
  EXPECT_TRUE(MayBeAbandoned(sequence)) << "the region is held";
  sequence.operands.push_back(sequence.operands[0]);
  sequence.operands[1].bytes.region = nullptr;
  EXPECT_FALSE(MayBeAbandoned(sequence));
  sequence.operands.pop_back();
  Share(sequence.steps[1], 24);
  EXPECT_FALSE(MayBeAbandoned(sequence));
  sequence.steps[1].d = {};
  sequence.steps[0].auxiliary.place = {region_, 24};
  EXPECT_FALSE(MayBeAbandoned(sequence));
}

TEST_F(SharedSequenceTest, WhileADeviceHangsItIsNotGivenBack) {
  TestEngine hanging(
      {.executor = {.lanes = 1, .hang_limit = absl::Milliseconds(20)}},
      {Hooks()});
  Sequence sequence = Steps();
  for (auto& room : sequence.rooms) {
    room = hanging->MakeTemporaries({room->layout()}, 0, "").value()[0];
  }
  sequence.operands[0].room = sequence.rooms[0];
  sequence.steps = {Scale(sequence.rooms[0], 2, sequence.rooms[1]),
                    Scale(sequence.rooms[1], 3, sequence.rooms[2])};
  Sequence writes = sequence;
  Share(writes.steps[1], 24);
  Put(7);
  const int before = gate_.arrived();
  gate_.Close();
  Answer<SequenceResult> answer;
  hanging->RunInOrder(std::move(writes), 0, {}, answer.done());
  ASSERT_TRUE(gate_.WaitForArrivals(before + 1));
  ASSERT_TRUE(Eventually([&] { return !hanging->device_state(0).ok(); }));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(answer.there());
  gate_.Open();
  EXPECT_TRUE(answer.Wait().ok()) << "it came to an end after all";
  EXPECT_EQ(Get(24), 42);
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
  testing::FakeCache cache;
  const jit::TemplateLibrary templates = jit::TemplateLibrary::Embedded();
  Forms forms(device, 0, cache, templates,
              [](int64_t) { return std::make_shared<const int>(0); });
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
