// What is refused as there are too many: calls, and what waits for its turn; or
// as it takes too long.
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/policy_files.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/raw_http2.h"
#include "tests/integration/rejections_fixture.h"

namespace gemmd {
namespace {

using testing::kMatmul;
using testing::OnesTimesTwos;
using testing::RawHttp2;
using testing::RejectionsTest;
using testing::TestServer;

class RejectedCallsTest : public RejectionsTest {
 protected:
  // Makes `call` until one is refused, while `gate` lets none end.
  void CallUntilRefused(testing::Gate& gate,
                        const std::function<grpc::Status()>& call) {
    const Counts before = Met();
    gate.Close();
    std::vector<std::future<grpc::Status>> calls;
    for (int i = 0; i < 3; ++i) {
      calls.push_back(std::async(std::launch::async, call));
      // The first one has begun, and no longer waits.
      if (i > 0) continue;
      EXPECT_TRUE(gate.WaitForArrivals(1));
    }
    testing::Eventually([&] { return Met() != before; });
    gate.Open();
    int refused = 0;
    for (auto& one : calls) {
      refused += one.get().error_code() == grpc::RESOURCE_EXHAUSTED;
    }
    EXPECT_EQ(refused, 1);
  }
};

TEST_F(RejectedCallsTest, QueuesOfEachDevice) {
  testing::Gate products, transfers;
  const auto hooks = std::make_shared<testing::Hooks>();
  hooks->multiply = [&](const auto&, const auto&) {
    products.Pass();
    return absl::OkStatus();
  };
  hooks->clear = [&](int64_t) {
    transfers.Pass();
    return absl::OkStatus();
  };
  Start(
      {.executor = {.lanes = 1, .max_queue = 1}, .devices = 2, .hooks = hooks});
  CallUntilRefused(products, [&] {
    v1::MatmulRequest request = OnesTimesTwos(2, 2, 2);
    request.mutable_header()->set_device("host:1");
    return server_->CallRaw(kMatmul, request.SerializeAsString());
  });
  ExpectMet({{"product_queue", 1}});
  CallUntilRefused(transfers, [&] {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_F32);
    request.set_rows(2);
    request.set_columns(2);
    request.set_device("host:1");
    return server_->CallRaw("/gemmd.v1.TensorService/CreateTensor",
                            request.SerializeAsString());
  });
  ExpectMet({{"product_queue", 1}, {"transfer_queue", 1}});
}

TEST_F(RejectedCallsTest, TheQueueOfCompiles) {
  Start({.preparer = {.max_waiting = 1}});
  ExpectRefusedBesideAnother([&] {
    return server_->CallRaw(kMatmul, OnesTimesTwos(2, 2, 2).SerializeAsString())
        .error_code();
  });
  ExpectMet({{"compile_queue", 1}});
}

TEST_F(RejectedCallsTest, CallsOfAConnection) {
  Start({.limits = {.max_calls_per_connection = 20}});
  RawHttp2 client(server_->address());
  for (int i = 0; i < 23; ++i) client.Open(kMatmul);
  ExpectMet({{"calls_of_connection", 3}});
}

TEST_F(RejectedCallsTest, Calls) {
  Start({.limits = {.max_calls = 80}});
  RawHttp2 first(server_->address());
  for (int i = 0; i < 60; ++i) first.Open(kMatmul);  // While it is alone.
  ASSERT_TRUE(testing::Eventually(
      [&] { return server_->server().runtime().places == 60; }));
  RawHttp2 second(server_->address());
  for (int i = 0; i < 22; ++i) second.Open(kMatmul);
  ExpectMet({{"calls", 2}});
  EXPECT_EQ(server_->server().runtime().places, 80);
}

TEST_F(RejectedCallsTest, CallsOfAPrincipal) {
  const testing::PolicyFiles files;
  TestServer::Options options;
  options.identity.policy = files.WritePolicy(absl::StrCat(
      R"({"name": "me", "roles": ["compute"], "max_calls": 1,
          "unix_users": [")",
      getuid(), R"("]})"));
  Start(std::move(options));
  ExpectRefusedBesideAnother([&] {
    return testing::CallRaw(server_->unix_channel(), kMatmul,
                            OnesTimesTwos(2, 2, 2).SerializeAsString(),
                            absl::Seconds(60))
        .error_code();
  });
  ExpectMet({{"calls_of_principal", 1}});
}

TEST_F(RejectedCallsTest, ASilentCall) {
  Start({.limits = {.stall_timeout = absl::Milliseconds(100)}});
  RawHttp2 client(server_->address());
  client.Open(kMatmul);
  ExpectMet({{"stall", 1}});
}

TEST_F(RejectedCallsTest, ACallWithoutADeadline) {
  Start({.limits = {.max_call_time = absl::Milliseconds(100)}});
  RawHttp2 client(server_->address());
  client.Open(kMatmul);
  ExpectMet({{"call_time", 1}});
}

TEST_F(RejectedCallsTest, AfterTheDrain) {
  Start({});
  server_->cache().Hold(true);
  const auto multiply = [&] {
    return server_->CallRaw(kMatmul, OnesTimesTwos(2, 2, 2).SerializeAsString())
        .error_code();
  };
  auto running = std::async(std::launch::async, multiply);
  server_->cache().WaitForGets(1);
  const std::jthread drain([&] { server_->server().Drain(); });
  ASSERT_TRUE(testing::Eventually(
      [&] { return server_->server().runtime().health.shutting_down(); }));
  EXPECT_EQ(multiply(), grpc::UNAVAILABLE);
  ExpectMet({{"shutdown", 1}});
  server_->cache().Hold(false);
  EXPECT_EQ(running.get(), grpc::OK);
}

}  // namespace
}  // namespace gemmd
