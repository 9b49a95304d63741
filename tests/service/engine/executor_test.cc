#include "service/engine/executor.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/service/fake_device.h"
#include "tests/service/gate.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using testing::Eventually;
using testing::Gate;

// Passes a gate on its lane and says how it ended.
class FakeTask final : public LaneTask {
 public:
  FakeTask(RequestContext context, const DeviceHealth& health, Gate* gate,
           bool alone = false, int turns = 1)
      : LaneTask(std::move(context), health),
        gate_(gate),
        alone_(alone),
        turns_(turns) {}

  bool alone() const override { return alone_; }
  bool Run(device::Lane&) override {
    began_ = true;
    if (gate_ != nullptr) gate_->Pass();
    if (--turns_ > 0) return true;
    End(absl::OkStatus());
    return false;
  }
  void Abandon(const absl::Status& why) override { End(why); }
  bool began() const { return began_; }
  bool ended() const { return ended_; }
  absl::Status Wait() {
    auto future = end_.get_future();
    if (future.wait_for(testing::kPatience) != std::future_status::ready) {
      return absl::DeadlineExceededError("the test waited in vain");
    }
    return future.get();
  }

 private:
  void Refuse(const absl::Status& why) override { End(why); }
  void End(const absl::Status& status) {
    if (!ended_.exchange(true)) end_.set_value(status);
  }

  Gate* const gate_;
  const bool alone_;
  int turns_;
  std::atomic<bool> began_ = false;
  std::atomic<bool> ended_ = false;
  std::promise<absl::Status> end_;
};

class ExecutorTest : public ::testing::Test {
 protected:
  void Start(Executor::Options options) {
    executor_ = Executor::Create(device_, health_, options).value();
  }

  std::shared_ptr<FakeTask> Make(RequestContext context = {},
                                 Gate* gate = nullptr) {
    return std::make_shared<FakeTask>(std::move(context), health_, gate);
  }
  std::shared_ptr<FakeTask> Submit(RequestContext context = {},
                                   Gate* gate = nullptr) {
    auto task = Make(std::move(context), gate);
    executor_->Submit(task);
    return task;
  }
  // One beside which no other runs.
  std::shared_ptr<FakeTask> SubmitAlone(Gate* gate = nullptr) {
    auto task =
        std::make_shared<FakeTask>(RequestContext(), health_, gate, true);
    executor_->Submit(task);
    return task;
  }
  // A task that keeps a lane until the gate opens.
  std::shared_ptr<FakeTask> Occupy() {
    gate_.Close();
    const int before = gate_.arrived();
    auto task = Submit({}, &gate_);
    EXPECT_TRUE(gate_.WaitForArrivals(before + 1));
    return task;
  }

  Gate gate_;
  DeviceHealth health_{"fake"};
  testing::FakeDevice device_{"fake", std::make_shared<testing::Hooks>()};
  std::unique_ptr<Executor> executor_;
};

TEST_F(ExecutorTest, RunsTheTasksOfOneClientInOrderOnOneLane) {
  Start({.lanes = 1, .max_queue = 100});
  const auto running = Occupy();
  std::vector<std::shared_ptr<FakeTask>> tasks;
  for (int i = 0; i < 50; ++i) tasks.push_back(Submit({}, &gate_));
  gate_.Open();
  for (int i = 49; i >= 0; --i) {
    EXPECT_TRUE(tasks[i]->Wait().ok());
    for (int before = 0; before < i; ++before) {
      EXPECT_TRUE(tasks[before]->ended());
    }
  }
}

TEST_F(ExecutorTest, AFullQueueRefusesWithItsLimit) {
  Start({.lanes = 1, .max_queue = 2});
  const auto running = Occupy();
  const auto first = Submit();
  const auto second = Submit();
  const absl::Status refused = Submit()->Wait();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "device fake has 2 requests waiting; the limit is 2. Try again "
            "later.");
  gate_.Open();
  EXPECT_TRUE(first->Wait().ok());
  EXPECT_TRUE(second->Wait().ok());
}

// The modest client's request is neither refused nor last.
TEST_F(ExecutorTest, AFloodMakesRoomForAModestClient) {
  Start({.lanes = 1, .max_queue = 20});
  const auto running = Occupy();
  std::vector<std::shared_ptr<FakeTask>> flood;
  for (int i = 0; i < 20; ++i) flood.push_back(Submit({.identity = "flood"}));
  const auto modest = Submit({.identity = "modest"});
  EXPECT_EQ(flood.back()->Wait().code(), StatusCode::kResourceExhausted);
  Gate last;
  last.Close();
  gate_.Open();
  EXPECT_TRUE(modest->Wait().ok());
  for (int i = 0; i < 19; ++i) EXPECT_TRUE(flood[i]->Wait().ok());
}

TEST_F(ExecutorTest, WhatHasBegunGoesOnHoweverManyWait) {
  Start({.lanes = 1, .max_queue = 1});
  gate_.Close();
  const auto begun = std::make_shared<FakeTask>(RequestContext(), health_,
                                                &gate_, /*alone=*/false, 2);
  executor_->Submit(begun);
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  const auto waits = Submit();
  gate_.Open();
  EXPECT_TRUE(begun->Wait().ok());
  EXPECT_TRUE(waits->Wait().ok());
}

TEST_F(ExecutorTest, APlaceIsFreeOnceItsTaskIsGivenUp) {
  Start({.lanes = 1, .max_queue = 1});
  auto task = Make();
  ASSERT_TRUE(executor_->Admit(*task).ok());
  EXPECT_EQ(executor_->waiting(), 1);
  EXPECT_FALSE(executor_->Admit(*Make()).ok());
  task->GiveUp(absl::CancelledError("gone"));
  EXPECT_EQ(executor_->waiting(), 0);
  EXPECT_TRUE(executor_->Admit(*Make()).ok());
}

TEST_F(ExecutorTest, LanesWorkAtTheSameTime) {
  Start({.lanes = 2, .max_queue = 10});
  gate_.Close();
  const auto first = Submit({}, &gate_);
  const auto second = Submit({}, &gate_);
  EXPECT_TRUE(gate_.WaitForArrivals(2));
  gate_.Open();
}

TEST_F(ExecutorTest, NothingBeginsBesideATaskThatIsAlone) {
  Start({.lanes = 3, .max_queue = 10});
  gate_.Close();
  const auto alone = SubmitAlone(&gate_);
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  const auto other = Submit();
  const auto second = SubmitAlone();
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(other->began());
  EXPECT_FALSE(second->began());
  EXPECT_EQ(executor_->activity().running, 1);
  gate_.Open();
  EXPECT_TRUE(other->Wait().ok());
  EXPECT_TRUE(second->Wait().ok());
  EXPECT_TRUE(alone->Wait().ok());
}

// Lanes looked for work in vain meanwhile.
TEST_F(ExecutorTest, AfterATaskThatIsAloneAllLanesGoOn) {
  Start({.lanes = 3, .max_queue = 10});
  gate_.Close();
  const auto alone = SubmitAlone(&gate_);
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  Gate together;
  together.Close();
  for (int i = 0; i < 3; ++i) Submit({}, &together);
  absl::SleepFor(absl::Milliseconds(50));
  gate_.Open();
  EXPECT_TRUE(together.WaitForArrivals(3));
  together.Open();
  executor_.reset();
}

TEST_F(ExecutorTest, ATaskThatIsAloneWaitsForThoseThatRun) {
  Start({.lanes = 2, .max_queue = 10});
  const auto running = Occupy();
  const auto alone = SubmitAlone();
  gate_.Open();
  EXPECT_TRUE(alone->Wait().ok());
  EXPECT_TRUE(running->ended());
}

// Lanes that wait for others to end cost as much as those that work.
TEST_F(ExecutorTest, WhatATaskThatIsAloneCostsIsCounted) {
  Start({.lanes = 2, .max_queue = 10});
  EXPECT_EQ(executor_->reserved(), absl::ZeroDuration());
  const auto running = Occupy();
  EXPECT_EQ(executor_->reserved(), absl::ZeroDuration());
  const auto alone = SubmitAlone();
  ASSERT_TRUE(
      Eventually([&] { return executor_->reserved() > absl::ZeroDuration(); }));
  absl::SleepFor(absl::Milliseconds(3));
  gate_.Open();
  EXPECT_TRUE(alone->Wait().ok());
  const auto other = Submit();
  EXPECT_TRUE(other->Wait().ok());
  const absl::Duration reserved = executor_->reserved();
  EXPECT_GE(reserved, absl::Milliseconds(2));
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(executor_->reserved(), reserved);
}

// The first one gave up being alone: its end is not the second one's.
TEST_F(ExecutorTest, WhoIsNotAloneEndsNobodysSolitude) {
  Start({.lanes = 3, .max_queue = 10});
  const auto running = Occupy();
  testing::Gate first_gate, second_gate;
  first_gate.Close();
  second_gate.Close();
  const auto first = SubmitAlone(&first_gate);
  ASSERT_TRUE(first_gate.WaitForArrivals(1));
  const auto second =
      std::make_shared<FakeTask>(RequestContext(), health_, &second_gate, true);
  gate_.Open();
  EXPECT_TRUE(running->Wait().ok());
  executor_->Submit(second);
  absl::SleepFor(absl::Milliseconds(1));
  first_gate.Open();
  EXPECT_TRUE(first->Wait().ok());
  ASSERT_TRUE(second_gate.WaitForArrivals(1));
  const auto other = Submit();
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(other->began());
  second_gate.Open();
  EXPECT_TRUE(other->Wait().ok());
  EXPECT_TRUE(second->Wait().ok());
}

// One long task costs the others a moment, not its time.
TEST_F(ExecutorTest, WhatTakesLongIsNotWaitedFor) {
  Start({.lanes = 2, .max_queue = 10});
  const auto running = Occupy();
  const auto alone = SubmitAlone();
  const auto other = Submit();
  EXPECT_TRUE(alone->Wait().ok());
  EXPECT_TRUE(other->Wait().ok());
  EXPECT_FALSE(running->ended());
  gate_.Open();
}

TEST_F(ExecutorTest, LoadIsThePredictedCostOfWhatWaitsAndRuns) {
  Start({.lanes = 1, .max_queue = 10});
  gate_.Close();
  auto running = Make({}, &gate_);
  running->set_cost(100);
  executor_->Submit(running);
  EXPECT_TRUE(gate_.WaitForArrivals(1));
  auto waiting = Make();
  waiting->set_cost(23);
  executor_->Submit(waiting);
  EXPECT_EQ(executor_->load(), 123);
  gate_.Open();
  EXPECT_TRUE(Eventually([&] { return executor_->load() == 0; }));
}

class ShortTasksTest : public ExecutorTest {
 protected:
  static constexpr int64_t kShort = 100;

  ShortTasksTest() {
    Start({.lanes = 1, .short_cycles = kShort});
  }
  std::shared_ptr<FakeTask> Submit(const std::string& identity, int64_t cost,
                                   Gate* gate = nullptr) {
    auto task = Make({.identity = identity}, gate);
    task->set_cost(cost);
    executor_->Submit(task);
    return task;
  }
  // A long task that keeps the lane of such until `gate` opens.
  std::shared_ptr<FakeTask> OccupyWithLong(Gate& gate) {
    gate.Close();
    auto task = Submit("long", kShort + 1, &gate);
    EXPECT_TRUE(gate.WaitForArrivals(1));
    return task;
  }
};

TEST_F(ShortTasksTest, TheyNeedNotWaitForLongOnes) {
  const auto running = OccupyWithLong(gate_);
  const auto waiting = Submit("long", kShort + 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Submit("short", kShort)->Wait().ok());
  }
  EXPECT_FALSE(waiting->began());
  gate_.Open();
  EXPECT_TRUE(waiting->Wait().ok());
}

TEST_F(ShortTasksTest, LongOnesOfTheSameIdentityStayBefore) {
  const auto running = OccupyWithLong(gate_);
  Gate second;
  second.Close();
  const auto first = Submit("one", kShort + 1, &second);
  const auto behind = Submit("one", 1);
  EXPECT_TRUE(Submit("other", 1)->Wait().ok());
  EXPECT_FALSE(behind->began());
  gate_.Open();
  // Once the long one has begun, what is behind it may.
  EXPECT_TRUE(second.WaitForArrivals(1));
  EXPECT_TRUE(behind->Wait().ok());
  EXPECT_FALSE(first->ended());
  second.Open();
  EXPECT_TRUE(first->Wait().ok());
}

TEST_F(ShortTasksTest, ALongOneWakesALaneThatTakesIt) {
  absl::SleepFor(absl::Milliseconds(50));  // All of them wait.
  EXPECT_TRUE(Submit("long", kShort + 1)->Wait().ok());
}

TEST_F(ShortTasksTest, TheyTakeAnyLaneThatIsFree) {
  gate_.Close();
  const auto one = Submit("one", 1, &gate_), other = Submit("other", 1, &gate_);
  EXPECT_TRUE(gate_.WaitForArrivals(2));
  gate_.Open();
  EXPECT_TRUE(one->Wait().ok());
  EXPECT_TRUE(other->Wait().ok());
}

// The lane is busy all the time: nobody but the sweep can have noticed.
TEST_F(ExecutorTest, DeadRequestsLeaveTheirPlacesAtOnce) {
  Start({.lanes = 1, .max_queue = 3});
  const auto running = Occupy();
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  const auto gone = Submit({.cancelled = cancelled});
  const auto late = Submit({.deadline = absl::Now() + absl::Milliseconds(1)});
  const auto patient = Submit({.deadline = absl::Now() + absl::Hours(1)});
  EXPECT_EQ(Submit()->Wait().code(), StatusCode::kResourceExhausted);
  *cancelled = true;
  absl::SleepFor(absl::Milliseconds(2));
  executor_->Sweep();
  EXPECT_EQ(gone->Wait().code(), StatusCode::kCancelled);
  EXPECT_EQ(late->Wait().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(executor_->waiting(), 1);
  const auto next = Submit();
  EXPECT_FALSE(next->ended());
  gate_.Open();
  EXPECT_TRUE(patient->Wait().ok());
  EXPECT_TRUE(next->Wait().ok());
  EXPECT_FALSE(gone->began());
}

TEST_F(ExecutorTest, WhatWasGivenUpWhileWaitingIsNotRun) {
  Start({.lanes = 1, .max_queue = 10});
  const auto running = Occupy();
  const auto late = Submit({.deadline = absl::Now() + absl::Milliseconds(1)});
  absl::SleepFor(absl::Milliseconds(2));
  gate_.Open();
  EXPECT_EQ(late->Wait().code(), StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(late->began());
}

TEST_F(ExecutorTest, ADeviceThatHangsHasFailed) {
  Start({.lanes = 1, .max_queue = 10, .hang_limit = absl::Milliseconds(20)});
  const auto running = Occupy();
  const auto waiting = Submit();
  EXPECT_TRUE(Eventually([&] {
    executor_->Sweep();
    return health_.failed();
  }));
  executor_->Sweep();
  for (const auto& task : {running, waiting}) {
    const absl::Status end = task->Wait();
    EXPECT_EQ(end.code(), StatusCode::kUnavailable);
    EXPECT_EQ(end.message(),
              "device fake has failed: it has worked on one request for more "
              "than 20ms");
  }
  EXPECT_FALSE(waiting->began());
  gate_.Open();
}

TEST_F(ExecutorTest, WhatWouldKeepTheDeviceTooLongIsRefused) {
  Start({.lanes = 2});
  EXPECT_TRUE(executor_->Check({.cycles = 3.3e9}).ok());
  const absl::Status refused = executor_->Check({.cycles = 3.5e9});
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "device fake is predicted to work 2.059s on this call; allowed: 2s "
            "(--max-work). Use several calls.");
  EXPECT_EQ(executor_->refused_work(), 1);
  // However little it is too much by, what is said is more than is allowed.
  EXPECT_EQ(executor_->Check({.cycles = 3.4001e9}).message(),
            "device fake is predicted to work 2.001s on this call; allowed: 2s "
            "(--max-work). Use several calls.");
  // Nothing that is allowed looks like a device that hangs.
  Start({.lanes = 2,
         .hang_limit = absl::Seconds(2),
         .max_work = absl::Seconds(30)});
  EXPECT_TRUE(executor_->Check({.cycles = 0.8e9}).ok());
  EXPECT_FALSE(executor_->Check({.cycles = 0.9e9}).ok());
}

TEST_F(ExecutorTest, AFailedDeviceBeginsNothing) {
  Start({.lanes = 1, .max_queue = 10});
  const auto running = Occupy();
  const auto waiting = Submit();
  health_.Fail("it burns");
  gate_.Open();
  EXPECT_EQ(waiting->Wait().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Submit()->Wait().code(), StatusCode::kUnavailable);
}

TEST_F(ExecutorTest, StoppingRefusesWhatWaits) {
  Start({.lanes = 1, .max_queue = 10});
  const auto running = Occupy();
  const auto waiting = Submit();
  std::thread stop([this] { executor_->Stop(); });
  EXPECT_EQ(waiting->Wait().code(), StatusCode::kUnavailable);
  gate_.Open();
  stop.join();
  EXPECT_EQ(Submit()->Wait().code(), StatusCode::kUnavailable);
}

TEST_F(ExecutorTest, IsBusyWhileAnyLaneWorks) {
  Start({.lanes = 2, .max_queue = 100});
  EXPECT_EQ(executor_->busy(), absl::ZeroDuration());
  const absl::Time start = absl::Now();
  const auto first = Occupy();
  const auto second = Submit({}, &gate_);
  ASSERT_TRUE(gate_.WaitForArrivals(2));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_GE(executor_->busy(), absl::Milliseconds(50));
  gate_.Open();
  EXPECT_TRUE(first->Wait().ok());
  EXPECT_TRUE(second->Wait().ok());
  ASSERT_TRUE(Eventually([&] { return executor_->activity().running == 0; }));
  const absl::Duration busy = executor_->busy();
  // Two lanes at once count once.
  EXPECT_LE(busy, absl::Now() - start);
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(executor_->busy(), busy);
}

TEST_F(ExecutorTest, CountsWhomItRefuses) {
  Start({.lanes = 1, .max_queue = 1});
  const auto running = Occupy();
  const auto waiting = Submit();
  EXPECT_EQ(executor_->places().refused(), 0);
  EXPECT_EQ(Submit()->Wait().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(executor_->places().refused(), 1);
  gate_.Open();
  EXPECT_TRUE(waiting->Wait().ok());
}

}  // namespace
}  // namespace gemmd::engine
