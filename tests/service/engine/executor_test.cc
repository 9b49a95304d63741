#include "service/engine/executor.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

#include "service/host/host_device.h"

namespace gemmd::engine {
namespace {

class ExecutorTest : public testing::Test {
 protected:
  void Start(int lanes, int max_queue) {
    executor_ =
        Executor::Create(*device_, {.lanes = lanes, .max_queue = max_queue})
            .value();
  }

  // Runs a job that says how it was called and waits for `gate`.
  std::future<absl::Status> Submit(RequestContext context = {},
                                   std::shared_future<void> gate = {}) {
    auto said = std::make_shared<std::promise<absl::Status>>();
    auto future = said->get_future();
    executor_->Run(executor_->Admit().value(), std::move(context),
                   [said, gate](absl::StatusOr<device::Lane*> lane) {
                     said->set_value(lane.status());
                     if (gate.valid()) gate.wait();
                   });
    return future;
  }

  std::unique_ptr<device::Device> device_ = host::CreateHostDevice({});
  std::promise<void> open_;
  std::shared_future<void> gate_ = open_.get_future().share();
  std::unique_ptr<Executor> executor_;
};

TEST_F(ExecutorTest, RunsJobsInOrderOnOneLane) {
  Start(1, 100);
  std::vector<int> order;
  std::promise<void> last;
  for (int i = 0; i < 50; ++i) {
    executor_->Run(executor_->Admit().value(), {},
                   [&order, &last, i](absl::StatusOr<device::Lane*> lane) {
                     EXPECT_TRUE(lane.ok());
                     order.push_back(i);
                     if (i == 49) last.set_value();
                   });
  }
  last.get_future().wait();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(order[i], i);
}

TEST_F(ExecutorTest, AFullQueueRefusesWithItsLimit) {
  Start(1, 2);
  auto running = Submit({}, gate_);
  ASSERT_TRUE(running.get().ok());  // It runs, so it waits no more.
  auto first = Submit();
  auto second = Submit();
  const auto refused = executor_->Admit();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.status().message(),
            "device host has 2 requests waiting; the limit is 2. Try again "
            "later.");
  open_.set_value();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
  EXPECT_TRUE(executor_->Admit().ok());
}

TEST_F(ExecutorTest, AnUnusedTicketGivesItsPlaceBack) {
  Start(1, 1);
  {
    const auto ticket = executor_->Admit();
    ASSERT_TRUE(ticket.ok());
    EXPECT_FALSE(executor_->Admit().ok());
    EXPECT_EQ(executor_->waiting(), 1);
  }
  EXPECT_EQ(executor_->waiting(), 0);
  EXPECT_TRUE(executor_->Admit().ok());
}

TEST_F(ExecutorTest, LanesWorkAtTheSameTime) {
  Start(2, 10);
  auto first = Submit({}, gate_);
  auto second = Submit({}, gate_);
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());  // Though the first has not ended.
  EXPECT_EQ(executor_->load(), 2);
  open_.set_value();
}

TEST_F(ExecutorTest, WhatWasGivenUpWhileWaitingIsNotRun) {
  Start(1, 10);
  auto running = Submit({}, gate_);
  ASSERT_TRUE(running.get().ok());
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  auto gone = Submit({.cancelled = cancelled});
  auto late = Submit({.deadline = absl::Now() + absl::Milliseconds(1)});
  auto patient = Submit({.deadline = absl::Now() + absl::Hours(1)});
  *cancelled = true;
  absl::SleepFor(absl::Milliseconds(2));
  open_.set_value();
  EXPECT_EQ(gone.get().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(late.get().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(patient.get().ok());
}

TEST_F(ExecutorTest, StoppingRefusesWhatWaits) {
  Start(1, 10);
  auto running = Submit({}, gate_);
  ASSERT_TRUE(running.get().ok());
  auto waiting = Submit();
  std::thread stop([this] { executor_.reset(); });
  EXPECT_EQ(waiting.get().code(), absl::StatusCode::kUnavailable);
  open_.set_value();
  stop.join();
}

}  // namespace
}  // namespace gemmd::engine
