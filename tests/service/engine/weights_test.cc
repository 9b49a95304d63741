// Shares of a device's time by weight, on a clock of the test's own: each task
// moves it by what it costs.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "service/engine/executor.h"
#include "tests/service/fake_device.h"
#include "tests/service/gate.h"

namespace gemmd::engine {
namespace {

using testing::Gate;

// What was run, in order.
class Clock {
 public:
  void Run(const std::string& identity, int64_t cost) {
    std::lock_guard lock(mutex_);
    runs_.emplace_back(identity, cost);
  }
  size_t count() {
    std::lock_guard lock(mutex_);
    return runs_.size();
  }
  // What each had had when the clock showed `time`.
  std::map<std::string, double> At(int64_t time) {
    std::lock_guard lock(mutex_);
    std::map<std::string, double> had;
    for (const auto& [identity, cost] : runs_) {
      if (time <= 0) break;
      had[identity] += static_cast<double>(cost);
      time -= cost;
    }
    EXPECT_LE(time, 0) << "the clock did not get so far";
    return had;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::string, int64_t>> runs_;
};

class Work final : public LaneTask {
 public:
  Work(RequestContext context, const DeviceHealth& health, int64_t cost,
       Clock* clock, Gate* gate)
      : LaneTask(std::move(context), health), clock_(clock), gate_(gate) {
    set_cost(cost);
  }

  bool Run(device::Lane&) override {
    gate_->Pass();
    if (clock_ != nullptr) clock_->Run(context().identity, cost());
    return false;
  }
  void Abandon(const absl::Status&) override {}

 private:
  void Refuse(const absl::Status& why) override { ADD_FAILURE() << why; }

  Clock* const clock_;
  Gate* const gate_;
};

struct Client {
  std::string identity;
  int weight;
  int64_t cost;  // Of each of its tasks.
  int tasks;
};

class WeightsTest : public ::testing::Test {
 protected:
  // All wait before the first of them begins.
  void Serve(const std::vector<Client>& clients) {
    auto executor =
        Executor::Create(device_, health_, {.lanes = 1, .max_queue = 100'000})
            .value();
    gate_.Close();
    executor->Submit(std::make_shared<Work>(RequestContext{.identity = "first"},
                                            health_, 1, nullptr, &gate_));
    ASSERT_TRUE(gate_.WaitForArrivals(1));
    size_t tasks = 0;
    for (const Client& client : clients) {
      for (int i = 0; i < client.tasks; ++i) {
        executor->Submit(
            std::make_shared<Work>(RequestContext{.identity = client.identity,
                                                  .weight = client.weight},
                                   health_, client.cost, &clock_, &gate_));
        ++tasks;
      }
    }
    gate_.Open();
    ASSERT_TRUE(testing::Eventually([&] { return clock_.count() == tasks; }));
  }

  Gate gate_;
  Clock clock_;
  DeviceHealth health_{"fake"};
  testing::FakeDevice device_{"fake", std::make_shared<testing::Hooks>()};
};

TEST_F(WeightsTest, SharesOfTimeAreAsTheWeights) {
  Serve({{"a", 1, 9'000, 2000}, {"b", 2, 90'000, 400}, {"c", 5, 30'000, 3000}});
  // All of them have something waiting until then.
  auto had = clock_.At(40'000'000);
  const double all = had["a"] + had["b"] + had["c"];
  EXPECT_NEAR(had["a"], all / 8, 0.05 * all / 8);
  EXPECT_NEAR(had["b"], all * 2 / 8, 0.05 * all * 2 / 8);
  EXPECT_NEAR(had["c"], all * 5 / 8, 0.05 * all * 5 / 8);
}

TEST_F(WeightsTest, TheGreatestWeightLeavesOthersTheirPart) {
  Serve({{"light", 1, 9'000, 100}, {"heavy", 1000, 9'000, 20'000}});
  auto had = clock_.At(100'000'000);
  const double all = had["light"] + had["heavy"];
  EXPECT_NEAR(had["light"], all / 1001, 0.2 * all / 1001);
}

TEST_F(WeightsTest, WhatOneDoesNotUseTheOthersGet) {
  Serve({{"light", 1, 10'000, 1000}, {"heavy", 9, 10'000, 9}});
  auto had = clock_.At(1'000'000);
  EXPECT_EQ(had["heavy"], 90'000);
  EXPECT_EQ(had["light"], 910'000);
}

}  // namespace
}  // namespace gemmd::engine
