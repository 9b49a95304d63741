// grpc.health.v1 and the probes behind it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "service/rpc/health_watch.h"
#include "tests/integration/eventually.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::TestServer;

HealthCheckResponse::ServingStatus Check(TestServer& server) {
  grpc::ClientContext context;
  HealthCheckResponse response;
  EXPECT_TRUE(Health::NewStub(server.channel())
                  ->Check(&context, HealthCheckRequest(), &response)
                  .ok());
  return response.status();
}

// A connection of its own.
std::unique_ptr<Health::Stub> NewConnection(TestServer& server) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return Health::NewStub(grpc::CreateCustomChannel(
      server.address(), grpc::InsecureChannelCredentials(), arguments));
}

// A watch that has been told the state once.
struct Watch {
  explicit Watch(Health::Stub& stub) : reader(stub.Watch(&context, {})) {}
  ~Watch() { context.TryCancel(); }

  bool Read() { return reader->Read(&response); }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader;
  HealthCheckResponse response;
};

// What probes wait for: a device that hangs.
class Gate {
 public:
  void Close() { Set(true); }
  // Returns when nobody is inside.
  void Open() {
    Set(false);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return inside_ == 0; });
  }
  absl::Status Pass() {
    std::unique_lock lock(mutex_);
    ++inside_;
    changed_.wait(lock, [this] { return !closed_; });
    --inside_;
    changed_.notify_all();
    return absl::OkStatus();
  }
  ~Gate() { Open(); }

 private:
  void Set(bool closed) {
    std::lock_guard lock(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  int inside_ = 0;
};

TEST(HealthTest, IsHealthy) {
  TestServer server;
  auto stub = grpc::health::v1::Health::NewStub(server.channel());
  for (const char* service : {"", "gemmd.v1.MatmulService"}) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    ASSERT_TRUE(stub->Check(&context, request, &response).ok());
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  }
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service("nobody");
  HealthCheckResponse response;
  EXPECT_EQ(stub->Check(&context, request, &response).error_code(),
            grpc::NOT_FOUND);
}

TEST(HealthTest, TellsWatchersOfADrainAndLeavesThem) {
  TestServer server({.drain_grace = absl::Milliseconds(300)});
  auto stub = grpc::health::v1::Health::NewStub(server.channel());
  grpc::ClientContext context;
  auto watch = stub->Watch(&context, {});
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  const absl::Time start = absl::Now();
  std::thread drain([&] { server.server().Drain(); });
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::UNAVAILABLE);
  drain.join();
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));  // Not its timeout.
}

TEST(HealthTest, ReadinessFollowsTheDevice) {
  std::atomic<bool> well = true;
  std::atomic<int> lost = 0;
  TestServer server({.probe =
                         [&] {
                           return well ? absl::OkStatus()
                                       : absl::InternalError("sticky");
                         },
                     .on_devices_lost = [&] { ++lost; }});
  const auto comes_to = [&](HealthCheckResponse::ServingStatus wanted) {
    return Eventually([&] { return Check(server) == wanted; });
  };
  EXPECT_TRUE(comes_to(HealthCheckResponse::SERVING));
  well = false;
  EXPECT_TRUE(comes_to(HealthCheckResponse::NOT_SERVING));
  EXPECT_TRUE(Eventually([&] { return lost == 1; }));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(lost, 1);
  well = true;
  EXPECT_TRUE(comes_to(HealthCheckResponse::SERVING));
}

TEST(HealthTest, AHungProbeCountsAsFailedAndHoldsUpNoDrain) {
  Gate gate;
  std::atomic<int> lost = 0;
  TestServer server({.probe = [&] { return gate.Pass(); },
                     .probe_timeout = absl::Milliseconds(500),
                     .on_devices_lost = [&] { ++lost; }});
  EXPECT_EQ(Check(server), HealthCheckResponse::SERVING);
  gate.Close();
  EXPECT_TRUE(Eventually([&] {
    return Check(server) == HealthCheckResponse::NOT_SERVING;
  })) << "a probe that hangs is not noticed";
  EXPECT_TRUE(Eventually([&] { return lost == 1; }));
  const absl::Time start = absl::Now();
  EXPECT_FALSE(server.server().Drain());
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
  gate.Open();  // Else its device could not be destroyed.
}

TEST(HealthTest, AConnectionHasAFewWatches) {
  TestServer server;
  const auto stub = NewConnection(server);
  std::vector<std::unique_ptr<Watch>> watches;
  for (int i = 0; i < rpc::HealthWatch::kMaxPerConnection; ++i) {
    watches.push_back(std::make_unique<Watch>(*stub));
    ASSERT_TRUE(watches.back()->Read());
  }
  Watch refused(*stub);
  EXPECT_FALSE(refused.Read());
  const grpc::Status status = refused.reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("allowed: 16"));
  const auto other = NewConnection(server);
  EXPECT_TRUE(Watch(*other).Read());
  // A client that leaves makes room at once.
  watches.pop_back();
  EXPECT_TRUE(Eventually([&] { return Watch(*stub).Read(); }));
}

TEST(HealthTest, WatchesCostNothingWhileNothingChanges) {
  constexpr int kConnections = 100;
  TestServer server({.drain_grace = absl::Seconds(5)});
  std::vector<std::unique_ptr<Health::Stub>> stubs;
  std::vector<std::unique_ptr<Watch>> watches;
  for (int i = 0; i < kConnections; ++i) {
    stubs.push_back(NewConnection(server));
    for (int j = 0; j < rpc::HealthWatch::kMaxPerConnection; ++j) {
      watches.push_back(std::make_unique<Watch>(*stubs.back()));
      ASSERT_TRUE(watches.back()->Read());
    }
  }
  const auto cpu_time = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return absl::DurationFromTimeval(usage.ru_utime) +
           absl::DurationFromTimeval(usage.ru_stime);
  };
  const absl::Duration before = cpu_time();
  absl::SleepFor(absl::Seconds(3));
  EXPECT_LT(cpu_time() - before, absl::Milliseconds(150));
  // All are told.
  const std::jthread drain([&] { server.server().Drain(); });
  for (auto& watch : watches) {
    ASSERT_TRUE(watch->Read());
    EXPECT_EQ(watch->response.status(), HealthCheckResponse::NOT_SERVING);
  }
}

}  // namespace
}  // namespace gemmd
