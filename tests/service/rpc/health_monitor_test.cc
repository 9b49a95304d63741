#include "service/rpc/health_monitor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "absl/time/clock.h"

namespace gemmd::rpc {
namespace {

// A device of which only the probe can be used.
class ProbedDevice final : public device::Device {
 public:
  void Answer(absl::Status status) {
    std::lock_guard lock(mutex_);
    answer_ = std::move(status);
  }
  void Hang(bool hangs) {
    std::lock_guard lock(mutex_);
    hangs_ = hangs;
    changed_.notify_all();
  }
  // Returns when no probe is inside any more.
  void WaitForProbes() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return inside_ == 0; });
  }

  absl::Status Probe() override {
    std::unique_lock lock(mutex_);
    ++inside_;
    changed_.wait(lock, [this] { return !hangs_; });
    --inside_;
    changed_.notify_all();
    return answer_;
  }

  const device::Description& description() const override {
    return description_;
  }
  int64_t FreeBytes() const override { return 0; }
  absl::StatusOr<std::unique_ptr<device::Lane>> CreateLane() override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<std::unique_ptr<device::Kernel>> Load(
      const jit::CompiledKernel&, const jit::Plan&) override {
    return absl::UnimplementedError("");
  }

 private:
  const device::Description description_;
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status answer_;
  bool hangs_ = false;
  int inside_ = 0;
};

class HealthMonitorTest : public testing::Test {
 protected:
  ~HealthMonitorTest() override {
    for (ProbedDevice* device : {&first_, &second_}) {
      device->Hang(false);
      device->WaitForProbes();
    }
  }

  std::unique_ptr<HealthMonitor> Start(
      absl::Duration timeout = absl::Seconds(30)) {
    return std::make_unique<HealthMonitor>(
        HealthMonitor::Options{.interval = absl::Milliseconds(5),
                               .timeout = timeout,
                               .on_change =
                                   [this](int device, const absl::Status& s) {
                                     std::lock_guard lock(mutex_);
                                     states_[device] = s;
                                     ++changes_;
                                     changed_.notify_all();
                                   },
                               .on_all_lost =
                                   [this] {
                                     std::lock_guard lock(mutex_);
                                     ++lost_;
                                     changed_.notify_all();
                                   }},
        std::vector<device::Device*>{&first_, &second_});
  }

  bool WaitUntil(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), condition);
  }

  ProbedDevice first_;
  ProbedDevice second_;
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status states_[2] = {absl::UnknownError(""), absl::UnknownError("")};
  int changes_ = 0;
  int lost_ = 0;
};

TEST_F(HealthMonitorTest, KnowsEveryDeviceBeforeItReturns) {
  second_.Answer(absl::InternalError("sticky"));
  const auto monitor = Start();
  std::lock_guard lock(mutex_);
  EXPECT_TRUE(states_[0].ok());
  EXPECT_EQ(states_[1], absl::InternalError("sticky"));
}

TEST_F(HealthMonitorTest, TellsOfEachChangeOnce) {
  const auto monitor = Start();
  second_.Answer(absl::InternalError("sticky"));
  EXPECT_TRUE(WaitUntil([this] { return !states_[1].ok(); }));
  second_.Answer(absl::OkStatus());
  EXPECT_TRUE(WaitUntil([this] { return states_[1].ok(); }));
  std::lock_guard lock(mutex_);
  EXPECT_EQ(changes_, 4);
}

TEST_F(HealthMonitorTest, OneLostDeviceOfTwoIsNoReasonToEnd) {
  const auto monitor = Start();
  second_.Answer(absl::InternalError("sticky"));
  ASSERT_TRUE(WaitUntil([this] { return changes_ == 3; }));
  absl::SleepFor(absl::Milliseconds(200));  // Many more probes.
  {
    std::lock_guard lock(mutex_);
    EXPECT_EQ(lost_, 0);
  }
  first_.Answer(absl::InternalError("sticky"));
  EXPECT_TRUE(WaitUntil([this] { return lost_ == 1; }));
  EXPECT_TRUE(monitor->Stop());
  EXPECT_EQ(lost_, 1);
}

TEST_F(HealthMonitorTest, DevicesThatFailNowAndThenAreNoReasonToEnd) {
  std::atomic<int> probes[2] = {0, 0};
  std::atomic<bool> lost = false;
  const HealthMonitor monitor(
      {.interval = absl::Milliseconds(1),
       .timeout = absl::Seconds(30),
       .probe = [&probes](int device) -> absl::Status {
         if (++probes[device] % HealthMonitor::kMaxFailures == 0) {
           return absl::OkStatus();
         }
         return absl::InternalError("now and then");
       },
       .on_all_lost = [&lost] { lost = true; }},
      {&first_, &second_});
  while (probes[0] < 50 || probes[1] < 50) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_FALSE(lost);
}

TEST_F(HealthMonitorTest, AHungProbeFailsItsDeviceAndNoOther) {
  const auto monitor = Start(absl::Milliseconds(200));
  second_.Hang(true);
  EXPECT_TRUE(WaitUntil([this] { return !states_[1].ok(); }));
  EXPECT_EQ(states_[1].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(states_[0].ok());
  // It may have been slow only.
  second_.Hang(false);
  EXPECT_TRUE(WaitUntil([this] { return states_[1].ok(); }));
}

TEST_F(HealthMonitorTest, AProbeThatHangsFromTheStartDelaysItByTheTimeout) {
  first_.Hang(true);
  second_.Hang(true);
  const auto monitor = Start(absl::Milliseconds(100));
  EXPECT_TRUE(WaitUntil([this] { return lost_ == 1; }));
}

TEST_F(HealthMonitorTest, StopsBesideAProbeThatHangs) {
  const auto monitor = Start(absl::Milliseconds(100));
  first_.Hang(true);
  EXPECT_TRUE(WaitUntil([this] { return !states_[0].ok(); }));
  const absl::Time start = absl::Now();
  EXPECT_FALSE(monitor->Stop());
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
}

}  // namespace
}  // namespace gemmd::rpc
