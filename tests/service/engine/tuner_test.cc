// What a tuner does with a device whose times a test makes up.
#include "service/engine/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "jit/base/steady_time.h"
#include "jit/plan/planner.h"
#include "tests/service/engine/tuner_case.h"
#include "tests/service/test_engine.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;
using testing::Eventually;
using testing::TestEngine;

TEST_F(TunerTest, TheFastestPlanServesFromTheNextRequestOn) {
  Start();
  const auto plans = jit::RankPlans(Square(), {}, 16);
  EXPECT_EQ(Serve(Square()).kernel, NameOf(plans[0]));
  Takes(plans[5], 80);
  const auto outcome = Tune({.problem = Square()});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->kernel_before, NameOf(plans[0]));
  EXPECT_EQ(outcome->us_before, 100);
  EXPECT_EQ(outcome->us, 80);
  EXPECT_EQ(outcome->measured, 16);
  EXPECT_EQ(outcome->failed, 0);
  EXPECT_EQ(outcome->record.kernel, NameOf(plans[5]));
  EXPECT_EQ(outcome->record.nanoseconds, 80000);
  EXPECT_GT(outcome->record.predicted_nanoseconds, 0);
  EXPECT_EQ(Record(Square()), outcome->record);
  EXPECT_EQ((*engine_)->kernels(0).Find(Square()), nullptr)
      << "requests still run with the old plan";
  EXPECT_EQ(Serve(Square()).kernel, NameOf(plans[5]));
}

TEST_F(TunerTest, APlanThatGainsTooLittleChangesNothing) {
  Start();
  const auto plans = jit::RankPlans(Square(), {}, 16);
  Takes(plans[5], 99.6);
  const auto outcome = Tune({.problem = Square()});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->record.kernel, NameOf(plans[0]));
  EXPECT_EQ(Serve(Square()).kernel, NameOf(plans[0]));
}

TEST_F(TunerTest, SoManyPlansAreTimedAsWereAskedFor) {
  Start();
  const auto outcome = Tune({.problem = Square(), .candidates = 3});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->measured, 3);
  const auto plans = jit::RankPlans(Square(), {}, 3);
  EXPECT_EQ(timed(), (std::set<std::string>{NameOf(plans[0]), NameOf(plans[1]),
                                            NameOf(plans[2])}));
}

// The same request keeps its bits: what other parts of k would bring does not
// count, however much it is.
TEST_F(TunerTest, ThePartsOfKStayUnlessANewGenerationIsAskedFor) {
  Start();
  const auto plans = jit::RankPlans(LongSum(), {}, 16);
  const auto other = std::ranges::find_if(
      plans, [&](const auto& plan) { return plan.splits != plans[0].splits; });
  ASSERT_NE(other, plans.end()) << "another problem is needed";
  Takes(*other, 10);
  auto outcome = Tune({.problem = LongSum()});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(timed_splits_, std::set<int>{plans[0].splits});
  EXPECT_EQ(outcome->record.splits, plans[0].splits);
  EXPECT_EQ(outcome->record.generation, 0);
  EXPECT_EQ(Serve(LongSum()).splits, plans[0].splits);

  outcome = Tune({.problem = LongSum(), .new_generation = true});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->splits_before, plans[0].splits);
  EXPECT_EQ(outcome->record.splits, other->splits);
  EXPECT_EQ(outcome->record.generation, 1);
  EXPECT_EQ(Serve(LongSum()).splits, other->splits);

  // From here on these are the parts that stay.
  Takes(plans[0], 1);
  outcome = Tune({.problem = LongSum()});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->record.splits, other->splits);
  EXPECT_EQ(outcome->record.generation, 1);
  EXPECT_EQ(Serve(LongSum()).splits, other->splits);
}

// Or a request would have other bits from one of them than from the next.
TEST_F(TunerTest, AllDevicesOfAProductChangeThePartsOfKTogether) {
  Start({.share_percent = 0}, /*devices=*/2);
  const int before = Serve(LongSum(), 0).splits;
  EXPECT_EQ(Serve(LongSum(), 1).splits, before);
  const auto plans = jit::RankPlans(LongSum(), {}, 16);
  const auto other = std::ranges::find_if(
      plans, [&](const auto& plan) { return plan.splits != before; });
  ASSERT_NE(other, plans.end()) << "another problem is needed";
  Takes(*other, 10);
  const auto outcome = Tune({.problem = LongSum(), .new_generation = true});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  for (const int device : {0, 1}) {
    KernelTable& kernels = (*engine_)->kernels(device);
    EXPECT_EQ(kernels.Find(LongSum()), nullptr)
        << "requests still run with the old plan";
    const auto choice = kernels.Choose(LongSum());
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_FALSE(choice->wanted) << "a request has to wait for the kernel";
    EXPECT_EQ(Serve(LongSum(), device).splits, other->splits) << device;
  }
}

TEST_F(TunerTest, AWinnerWithOtherBitsIsNotUsed) {
  const auto plans = jit::RankPlans(Square(), {}, 16);
  hooks_->same_bits = [&](const jit::Plan& present, const jit::Plan& winner) {
    EXPECT_EQ(NameOf(present), NameOf(plans[0]));
    return NameOf(winner) != NameOf(plans[5]);
  };
  Start();
  Takes(plans[5], 80);
  const auto outcome = Tune({.problem = Square()});
  EXPECT_EQ(outcome.status().code(), StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(outcome.status().message(), "other bits"));
  EXPECT_FALSE(Record(Square()));
  EXPECT_EQ(Serve(Square()).kernel, NameOf(plans[0]));
}

TEST_F(TunerTest, AKernelThatCannotBeHadIsPassedOver) {
  Start();
  const auto plans = jit::RankPlans(Square(), {}, 16);
  Takes(plans[5], 10);
  Takes(plans[6], 20);
  engine_->cache().Reject(NameOf(plans[5]));
  const auto outcome = Tune({.problem = Square()});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->record.kernel, NameOf(plans[6]));
  EXPECT_EQ(outcome->measured, 15);
  EXPECT_EQ(outcome->failed, 1);
}

// As where nothing may be compiled: another time there may be more.
TEST_F(TunerTest, APlanWithoutRivalsIsNotRecorded) {
  Start();
  for (const jit::Plan& plan : jit::RankPlans(Square(), {}, 16)) {
    if (NameOf(plan) != NameOf(jit::ChoosePlan(Square(), {}))) {
      engine_->cache().Reject(NameOf(plan));
    }
  }
  EXPECT_EQ(Tune({.problem = Square()}).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_FALSE(Record(Square()));
}

TEST_F(TunerTest, ThePresentPlanIsTheOneThatIsNotRefused) {
  Start();
  const auto plans = jit::RankPlans(Square(), {}, 16);
  engine_->cache().Reject(NameOf(plans[0]));
  const auto outcome = Tune({.problem = Square()});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->kernel_before, NameOf(plans[1]));
  EXPECT_EQ(Serve(Square()).kernel, NameOf(plans[1]));
}

TEST_F(TunerTest, TimingTakesItsMemoryFromTheQuota) {
  hooks_->timing_memory = {.least_bytes = int64_t{1} << 40,
                           .enough_bytes = int64_t{1} << 41};
  Start();
  EXPECT_EQ(Tune({.problem = Square()}).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(samples_, 0);
  EXPECT_FALSE(Record(Square()));
}

TEST_F(TunerTest, LessMemoryThanEnoughWillDo) {
  hooks_->timing_memory = {.least_bytes = 1 << 20,
                           .enough_bytes = int64_t{1} << 41};
  Start();
  const int64_t free = (*engine_)->tensors().free_bytes(0);
  EXPECT_TRUE(Tune({.problem = Square()}).ok());
  EXPECT_TRUE(
      Eventually([&] { return (*engine_)->tensors().free_bytes(0) == free; }));
}

TEST_F(TunerTest, AFailureChangesNothing) {
  Start();
  const auto plans = jit::RankPlans(Square(), {}, 16);
  time_error_ = absl::InternalError("the clock stopped");
  EXPECT_EQ(Tune({.problem = Square()}).status().code(), StatusCode::kInternal);
  EXPECT_FALSE(Record(Square()));
  EXPECT_EQ(Serve(Square()).kernel, NameOf(plans[0]));
}

TEST_F(TunerTest, ADeviceWithoutKernelTimesSaysSo) {
  Engine::Options options;
  options.tuning = &table_;
  engine_.emplace(options,
                  std::vector<std::shared_ptr<testing::Hooks>>{hooks_});
  EXPECT_EQ(Tune({.problem = Square()}).status().code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(engine_->cache().gets(), 0);
}

TEST_F(TunerTest, WhatMultipliesNothingIsNotTuned) {
  Start();
  EXPECT_EQ(Tune({.problem = Parse("bf16 TN 8 8 8 alpha=0")}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(TunerTest, ACancelledOrderEnds) {
  Start();
  RequestContext context;
  context.cancelled = std::make_shared<std::atomic<bool>>(true);
  EXPECT_EQ(
      engine_->Tune({.problem = Square()}, context).Wait().status().code(),
      StatusCode::kCancelled);
}

// Requests come first: whoever waits for a compile waits for none of the
// tuner's.
TEST_F(TunerTest, CompilesOfRequestsGoFirst) {
  Start();
  engine_->cache().Hold(true);
  auto tuned = engine_->Tune({.problem = Square()});
  engine_->cache().WaitForGets(3);  // Of four threads, one is left.
  testing::Answer<Execution> answer;
  (*engine_)->Prepare(LongSum(), 0, {}, answer.done());
  engine_->cache().WaitForGets(4);
  engine_->cache().Hold(false);
  EXPECT_TRUE(answer.Wait().ok());
  EXPECT_TRUE(tuned.Wait().ok());
}

class BackgroundTest : public TunerTest {
 protected:
  void Request(const jit::Problem& problem, int times) {
    Serve(problem);
    for (int i = 0; i < times; ++i) {
      (*engine_)->kernels(0).Find(problem);
    }
  }
};

TEST_F(BackgroundTest, HotProblemsAreTuned) {
  Start({.share_percent = 90,
         .least_finds = 10,
         .interval = absl::Milliseconds(5)});
  const auto plans = jit::RankPlans(Square(), {}, 16);
  Takes(plans[5], 80);
  Request(Square(), 20);
  Request(LongSum(), 5);  // Not hot.
  EXPECT_TRUE(Eventually([&] { return Record(Square()).has_value(); }));
  EXPECT_TRUE(
      Eventually([&] { return Serve(Square()).kernel == NameOf(plans[5]); }));
  EXPECT_FALSE(Record(LongSum()));
}

TEST_F(BackgroundTest, WhyAHotProblemCouldNotBeTunedIsTold) {
  std::atomic<int> told = 0;
  hooks_->same_bits = [](const jit::Plan&, const jit::Plan&) { return false; };
  Takes(jit::RankPlans(Square(), {}, 16)[5], 80);
  Start({.share_percent = 90,
         .least_finds = 10,
         .interval = absl::Milliseconds(5),
         .gave_up = [&](const jit::Problem& problem, const absl::Status& why) {
           EXPECT_EQ(problem, Square());
           EXPECT_TRUE(absl::StrContains(why.message(), "other bits")) << why;
           ++told;
         }});
  Request(Square(), 20);
  EXPECT_TRUE(Eventually([&] { return told > 0; }));
  engine_.reset();
}

TEST_F(BackgroundTest, WithoutAShareNothingIsTuned) {
  Start({.share_percent = 0,
         .least_finds = 1,
         .interval = absl::Milliseconds(1)});
  Request(Square(), 1000);
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(samples_, 0);
  EXPECT_FALSE(Record(Square()));
}

TEST_F(BackgroundTest, NoMoreThanItsShareOfTheTimeIsTaken) {
  slow_sample_ = true;
  Start({.share_percent = 10,
         .least_finds = 10,
         .interval = absl::Milliseconds(5)});
  const absl::Time begin = absl::Now();
  Request(Square(), 20);
  EXPECT_TRUE(Eventually([&] { return Record(Square()).has_value(); }));
  const absl::Duration taken = (*engine_)->tuner().progress().device_time;
  EXPECT_GE(taken, absl::Milliseconds(2) * samples_.load());
  // The last slice has not rested yet.
  EXPECT_LE(0.9 * taken, 0.1 * (absl::Now() - begin) + absl::Milliseconds(50));
}

// Long products on every lane but one: slices find no moment alone.
TEST_F(BackgroundTest, NothingIsTimedBesideAProduct) {
  testing::Gate gate;
  gate.Close();
  hooks_->synchronize = [&] {
    gate.Pass();
    return absl::OkStatus();
  };
  Start({.share_percent = 90,
         .least_finds = 10,
         .interval = absl::Milliseconds(5)});
  auto answer = engine_->Multiply(TestEngine::Zeros());
  ASSERT_TRUE(gate.WaitForArrivals(1));
  Request(Square(), 20);
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(samples_, 0);
  gate.Open();
  EXPECT_TRUE(Eventually([&] { return Record(Square()).has_value(); }));
  EXPECT_TRUE(answer.Wait().ok());
}

// As many clients as there are places keep every lane busy all the time.
TEST_F(BackgroundTest, HotProblemsAreTunedThoughRequestsNeverEnd) {
  Start({.share_percent = 50,
         .least_finds = 10,
         .interval = absl::Milliseconds(5)});
  const auto plans = jit::RankPlans(Square(), {}, 16);
  Takes(plans[5], 80);
  std::atomic<bool> over = false;
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      while (!over) {
        EXPECT_TRUE(engine_->Multiply(TestEngine::Zeros()).Wait().ok());
      }
    });
  }
  Request(Square(), 20);
  EXPECT_TRUE(Eventually([&] { return Record(Square()).has_value(); }));
  over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(Serve(Square()).kernel, NameOf(plans[5]));
}

// It rests for long between its slices, and the device is its own meanwhile.
TEST_F(BackgroundTest, WhoAsksWaitsNoLongerThanHeMay) {
  slow_sample_ = true;
  Start({.share_percent = 1,
         .least_finds = 10,
         .interval = absl::Milliseconds(5)});
  Request(Square(), 20);
  ASSERT_TRUE(Eventually([&] { return samples_ > 0; }));
  RequestContext context;
  context.deadline = jit::SteadyNow() + absl::Milliseconds(200);
  auto tuned = engine_->Tune({.problem = LongSum()}, context);
  EXPECT_EQ(tuned.Wait().status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(Record(Square())) << "it went on";
}

TEST_F(BackgroundTest, TheEngineEndsWhileItIsTuned) {
  slow_sample_ = true;
  Start({.share_percent = 1,
         .least_finds = 10,
         .interval = absl::Milliseconds(5)});
  Request(Square(), 20);
  EXPECT_TRUE(Eventually([&] { return samples_ > 0; }));
  auto tuned = engine_->Tune({.problem = LongSum()});
  engine_.reset();
  EXPECT_TRUE(tuned.there());
}

}  // namespace
}  // namespace gemmd::engine
