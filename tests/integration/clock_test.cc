// Somebody sets the clock, again and again, by a day: calls and what is told
// of them stay as they are.
#include "absl/time/clock.h"

#include <grpc/support/time.h>
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <thread>

#include "tests/integration/test_server.h"
#include "tests/settable_clock.h"

namespace gemmd {
namespace {

using testing::OnesTimesTwos;
using testing::TestServer;

constexpr int64_t kDayS = 24 * 3600;
constexpr int64_t kMinuteUs = 60'000'000;

// While it lives.
class ClockSetter {
 public:
  ClockSetter() {
    thread_ = std::thread([this] {
      for (int i = 0; !stop_; ++i) {
        clock_step_s = (i % 3 - 1) * kDayS;
        const timespec pause = {.tv_sec = 0, .tv_nsec = 300'000};
        nanosleep(&pause, nullptr);
      }
    });
  }
  ~ClockSetter() {
    stop_ = true;
    thread_.join();
    clock_step_s = 0;
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST(ClockTest, CallsEndAsTheyWouldHave) {
  TestServer server;
  const auto stub = v1::MatmulService::NewStub(server.channel());
  const ClockSetter setter;
  for (int i = 0; i < 400; ++i) {
    grpc::ClientContext context;
    // The client's own deadline is not in question.
    if (i % 2 == 0) {
      context.set_deadline(
          gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                       gpr_time_from_minutes(5, GPR_TIMESPAN)));
    }
    v1::MatmulResponse response;
    const grpc::Status status =
        stub->Matmul(&context, OnesTimesTwos(64, 64, 64), &response);
    ASSERT_TRUE(status.ok()) << i << ": " << status.error_message();
    const v1::Phases& phases = response.execution().phases();
    for (const int64_t time_us :
         {phases.queue_us(), phases.plan_us(), phases.compile_us(),
          phases.upload_us(), phases.execute_us(), phases.download_us()}) {
      ASSERT_GE(time_us, 0) << i << ": " << phases.ShortDebugString();
      ASSERT_LT(time_us, kMinuteUs) << i << ": " << phases.ShortDebugString();
    }
  }
}

TEST(ClockTest, TheServerIsAsOldAsItIs) {
  TestServer server;
  const auto stub = v1::ServerService::NewStub(server.channel());
  for (const int64_t days : {-1, 1}) {
    clock_step_s = days * kDayS;
    grpc::ClientContext context;
    v1::Statistics statistics;
    ASSERT_TRUE(stub->GetStatistics(&context, {}, &statistics).ok());
    clock_step_s = 0;
    EXPECT_LT(statistics.uptime_s(), 600) << days;
  }
}

}  // namespace
}  // namespace gemmd
