// Each limit that a request meets is counted under its own name: by these an
// operator finds the option to change.
#include "service/monitor/rejections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/policy_files.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/raw_http2.h"
#include "tests/integration/test_server.h"
#include "tests/service/gate.h"

namespace gemmd {
namespace {

using testing::OnesTimesTwos;
using testing::RawHttp2;
using testing::TestServer;

constexpr char kMatmul[] = "/gemmd.v1.MatmulService/Matmul";

class RejectionsTest : public ::testing::Test {
 protected:
  using Counts = std::map<std::string, int64_t>;

  // Those that have been met.
  Counts Met() const {
    Counts met;
    for (const auto& [reason, count] : monitor::AllRejections(
             server_->server().runtime(), server_->engine())) {
      if (count != 0) met.emplace(reason, count);
    }
    return met;
  }
  void ExpectMet(const Counts& counts) const {
    testing::Eventually([&] { return Met() == counts; });
    EXPECT_EQ(Met(), counts);
  }
  void Start(TestServer::Options options) {
    server_ = std::make_unique<TestServer>(std::move(options));
  }
  // What becomes of a product that is said to have so many bytes.
  grpc::StatusCode Announced(const char* bytes,
                             const v1::MatmulRequest& request) {
    grpc::ClientContext context;
    context.AddMetadata("gemmd-message-bytes", bytes);
    v1::MatmulResponse response;
    return v1::MatmulService::NewStub(server_->channel())
        ->Matmul(&context, request, &response)
        .error_code();
  }
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

  // `call` is refused while another like it waits for its kernel.
  void ExpectRefusedBesideAnother(
      const std::function<grpc::StatusCode()>& call) {
    server_->cache().Hold(true);
    auto first = std::async(std::launch::async, call);
    server_->cache().WaitForGets(1);
    EXPECT_EQ(call(), grpc::RESOURCE_EXHAUSTED);
    server_->cache().Hold(false);
    EXPECT_EQ(first.get(), grpc::OK);
  }

  std::unique_ptr<TestServer> server_;
};

TEST_F(RejectionsTest, QueuesOfEachDevice) {
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

TEST_F(RejectionsTest, TheQueueOfCompiles) {
  Start({.preparer = {.max_waiting = 1}});
  ExpectRefusedBesideAnother([&] {
    return server_->CallRaw(kMatmul, OnesTimesTwos(2, 2, 2).SerializeAsString())
        .error_code();
  });
  ExpectMet({{"compile_queue", 1}});
}

TEST_F(RejectionsTest, CallsOfAConnection) {
  Start({.limits = {.max_calls_per_connection = 20}});
  RawHttp2 client(server_->address());
  for (int i = 0; i < 23; ++i) client.Open(kMatmul);
  ExpectMet({{"calls_of_connection", 3}});
}

TEST_F(RejectionsTest, Calls) {
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

TEST_F(RejectionsTest, CallsOfAPrincipal) {
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

TEST_F(RejectionsTest, RoomForRequests) {
  Start({.limits = {.max_message_bytes = 100 << 10,
                    .max_in_flight_bytes = 100 << 10,
                    .max_wait = absl::Milliseconds(300)}});
  ExpectRefusedBesideAnother(
      [&] { return Announced("90000", OnesTimesTwos(200, 1, 200)); });
  ExpectMet({{"request_budget", 1}});
}

// An answer that nobody takes leaves none for the next one.
TEST_F(RejectionsTest, RoomForAnswers) {
  Start({.limits = {.max_message_bytes = 1 << 20,
                    .max_in_flight_bytes = 1 << 20,
                    .max_wait = absl::Milliseconds(300)}});
  const std::string request =
      OnesTimesTwos(500, 490, 1).SerializeAsString();  // 980,000 bytes.
  RawHttp2 client(server_->address());
  const uint32_t stream = client.Open(kMatmul);
  client.SendPrefix(stream, static_cast<uint32_t>(request.size()));
  client.Send(stream, request, true);
  ASSERT_TRUE(testing::Eventually(
      [&] { return server_->server().runtime().responses.held_bytes() > 0; }));
  EXPECT_EQ(server_->CallRaw(kMatmul, request).error_code(),
            grpc::RESOURCE_EXHAUSTED);
  ExpectMet({{"response_budget", 1}});
}

// Whether it was announced or not.
TEST_F(RejectionsTest, MessagesThatAreTooLarge) {
  Start({.limits = {.max_message_bytes = 1 << 20}});
  EXPECT_EQ(Announced("2000000", OnesTimesTwos(1, 1, 1)),
            grpc::RESOURCE_EXHAUSTED);
  ExpectMet({{"message_size", 1}});
  EXPECT_EQ(server_
                ->CallRaw("/gemmd.v1.TensorService/CreateTensor",
                          std::string(65537, '\0'))
                .error_code(),
            grpc::RESOURCE_EXHAUSTED);
  ExpectMet({{"message_size", 2}});
  const grpc::Status status =
      server_->CallRaw(kMatmul, std::string((1 << 20) + 1, '\0'));
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(),
            "the message has 1048577 bytes; allowed: 1048576");
  ExpectMet({{"message_size", 3}});
}

TEST_F(RejectionsTest, ASilentCall) {
  Start({.limits = {.stall_timeout = absl::Milliseconds(100)}});
  RawHttp2 client(server_->address());
  client.Open(kMatmul);
  ExpectMet({{"stall", 1}});
}

TEST_F(RejectionsTest, ACallWithoutADeadline) {
  Start({.limits = {.max_call_time = absl::Milliseconds(100)}});
  RawHttp2 client(server_->address());
  client.Open(kMatmul);
  ExpectMet({{"call_time", 1}});
}

// More than the daemon has room for, of messages that nobody announced.
TEST_F(RejectionsTest, BytesThatFindNoRoom) {
  Start({.limits = {.max_message_bytes = 1 << 20,
                    .max_in_flight_bytes = 1 << 20}});
  RawHttp2 client(server_->address());
  std::vector<uint32_t> streams;
  for (int i = 0; i < 8; ++i) {
    streams.push_back(client.Open(kMatmul));
    client.SendPrefix(streams.back(), 1000 << 10);
  }
  for (int i = 0; client.alive() && Met().empty() && i < 100; ++i) {
    for (const uint32_t stream : streams) {
      client.SendLate(stream, std::string(60 << 10, '\0'));
    }
  }
  EXPECT_TRUE(testing::Eventually([&] { return !Met().empty(); }));
  EXPECT_THAT(Met(), ::testing::ElementsAre(
                         ::testing::Pair("overrun", ::testing::Ge(1))));
}

TEST_F(RejectionsTest, AfterTheDrain) {
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
