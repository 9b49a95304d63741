// Principals see and exhaust nothing of each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/eventually.h"
#include "tests/integration/identity_fixture.h"

namespace gemmd {
namespace {

using testing::IdentityTest;
using testing::OnesTimesTwos;
using Client = testing::PrincipalClient;
using grpc::StatusCode;
using testing::TestServer;

// A product that was announced and does not come.
struct Announced {
  Announced(const TestServer& server, const Client& client, int64_t bytes)
      : stub(testing::Connect(server.address())) {
    client.Prepare(context);
    context.AddMetadata("gemmd-message-bytes", absl::StrCat(bytes));
    call = stub.PrepareCall(&context, "/gemmd.v1.MatmulService/Matmul", &queue);
    call->StartCall(nullptr);
    Wait();
  }
  ~Announced() {
    context.TryCancel();
    call->Finish(&status, nullptr);
    Wait();
  }
  void Wait() {
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
  }

  grpc::ClientContext context;
  grpc::GenericStub stub;
  grpc::CompletionQueue queue;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
  grpc::Status status;
};

grpc::Status MultiplyAnnounced(const Client& client,
                               const v1::MatmulRequest& request,
                               int64_t bytes) {
  grpc::ClientContext context;
  client.Prepare(context);
  context.AddMetadata("gemmd-message-bytes", absl::StrCat(bytes));
  v1::MatmulResponse response;
  return client.Call(context, request, &response);
}

TEST_F(IdentityTest, ATensorIsItsPrincipalsAlone) {
  StartAliceAndBob();
  std::string handle;
  ASSERT_TRUE(As("alice").Create(64, &handle).ok());
  const Client alice = As("alice"), bob = As("bob"), ops = As("ops");
  EXPECT_TRUE(alice.Describe(handle).ok()) << "by another connection";
  EXPECT_TRUE(alice.Download(handle).ok());
  const std::string unknown = absl::StrCat(
      "no tensor ", handle, ": never created, deleted, or expired");
  const auto refused = [&](const grpc::Status& status,
                           const std::string& text) {
    EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(status.error_message(), text);
  };
  for (const Client& other : {bob, ops}) {
    refused(other.Describe(handle), unknown);
    refused(other.Upload(handle), unknown);
    refused(other.Download(handle), unknown);
    v1::MatmulRequest request = OnesTimesTwos(64, 64, 64);
    request.mutable_header()->mutable_d()->set_tensor(handle);
    refused(other.Multiply(request), absl::StrCat("d.tensor: ", unknown));
    request = OnesTimesTwos(64, 64, 64);
    request.clear_a();
    request.mutable_header()->mutable_a()->set_tensor(handle);
    refused(other.Multiply(request), absl::StrCat("a.tensor: ", unknown));
  }
  EXPECT_EQ(alice.Handles(), std::set<std::string>{handle});
  EXPECT_TRUE(bob.Handles().empty());
  EXPECT_EQ(ops.Handles(), std::set<std::string>{handle});
  refused(bob.Delete(handle), unknown);
  EXPECT_TRUE(alice.Delete(handle).ok());
  ASSERT_TRUE(alice.Create(64, &handle).ok());
  EXPECT_TRUE(ops.Delete(handle).ok()) << "with the role admin";
  EXPECT_TRUE(alice.Handles().empty());
}

TEST_F(IdentityTest, StatisticsAreOnesOwn) {
  StartAliceAndBob();
  const Client alice = As("alice"), bob = As("bob"), ops = As("ops");
  const int64_t all = ops.Info().devices(0).free_bytes();
  ASSERT_TRUE(alice.Multiply(OnesTimesTwos(8, 8, 8)).ok());
  ASSERT_FALSE(alice.Multiply(v1::MatmulRequest()).ok());
  ASSERT_TRUE(alice.Create(64).ok());
  const v1::Statistics hers = alice.Statistics();
  EXPECT_EQ(hers.requests(), 2);
  EXPECT_EQ(hers.failed(), 1);
  EXPECT_EQ(hers.received_bytes(), 2 * 2 * 8 * 8);
  EXPECT_EQ(hers.sent_bytes(), 4 * 8 * 8);
  EXPECT_EQ(hers.tensors(), 1);
  EXPECT_EQ(hers.tensor_bytes(), 64 * 64 * 4);
  EXPECT_FALSE(hers.has_cache());
  const v1::Statistics his = bob.Statistics();
  EXPECT_EQ(his.requests() + his.failed() + his.received_bytes() +
                his.sent_bytes() + his.tensors() + his.tensor_bytes(),
            0);
  EXPECT_FALSE(his.has_cache());
  EXPECT_FALSE(his.has_tuning());
  const v1::Statistics everybodys = ops.Statistics();
  EXPECT_EQ(everybodys.requests(), 2);
  EXPECT_EQ(everybodys.tensors(), 1);
  EXPECT_TRUE(everybodys.has_cache());
  // What is free tells of others, too.
  EXPECT_GT(all, 0);
  const int64_t before = bob.Info().devices(0).free_bytes();
  ASSERT_TRUE(alice.Create(640).ok());
  EXPECT_EQ(bob.Info().devices(0).free_bytes(), before);
}

TEST_F(IdentityTest, AQuotaOfTensorsIsOfAllConnectionsTogether) {
  TestServer::Options options;
  options.limits.max_tensor_bytes = 1 << 20;
  Start(R"({"name": "alice", "roles": ["tensors"], "max_tensors": 2},
           {"name": "bob", "roles": ["tensors"], "max_tensor_bytes": 40000})",
        std::move(options));
  EXPECT_TRUE(As("alice").Create(64).ok());
  EXPECT_TRUE(As("alice").Create(64).ok());
  EXPECT_EQ(As("alice").Create(64).error_message(),
            "this client has created 2 tensors; the limit of one is 2");
  EXPECT_TRUE(As("bob").Create(64).ok());
  EXPECT_TRUE(As("bob").Create(64).ok());
  EXPECT_EQ(As("bob").Create(64).error_message(),
            "a tensor of 16384 bytes does not fit: this client has 32768 bytes "
            "of tensors; the limit of one is 40000");
}

TEST_F(IdentityTest, AQuotaOfCallsIsOfAllConnectionsTogether) {
  Start(R"({"name": "alice", "roles": ["tensors"], "max_calls": 2},
           {"name": "bob", "roles": ["tensors"]})");
  // Uploads that have begun and send nothing more.
  struct Stalled {
    grpc::ClientContext context;
    v1::TensorInfo info;
    std::unique_ptr<grpc::ClientWriter<v1::UploadTensorRequest>> stream;
  };
  std::string handle;
  const Client alice = As("alice");
  ASSERT_TRUE(alice.Create(64, &handle).ok());
  std::vector<std::unique_ptr<Stalled>> stalled;
  for (int i = 0; i < 2; ++i) {
    auto one = std::make_unique<Stalled>();
    alice.Prepare(one->context);
    one->stream =
        v1::TensorService::NewStub(testing::Connect(server_->address()))
            ->UploadTensor(&one->context, &one->info);
    v1::UploadTensorRequest message;
    message.mutable_header()->set_handle(handle);
    ASSERT_TRUE(one->stream->Write(message));
    stalled.push_back(std::move(one));
  }
  // What asks is a call, too, and could come before them.
  ASSERT_TRUE(testing::Eventually(
      [&] { return server_->server().runtime().places == 2; }));
  EXPECT_TRUE(testing::Eventually([&] {
    const grpc::Status status = alice.Describe(handle);
    return status.error_code() == StatusCode::RESOURCE_EXHAUSTED &&
           status.error_message() ==
               "the principal has 2 calls, its limit (max_calls). Try again "
               "later.";
  }));
  EXPECT_TRUE(As("bob").Create(64).ok());
  for (const auto& one : stalled) {
    one->context.TryCancel();
    one->stream->Finish();
  }
  EXPECT_TRUE(testing::Eventually([&] { return alice.Describe(handle).ok(); }));
}

TEST_F(IdentityTest, BytesOnTheirWayAreOfAllConnectionsTogether) {
  constexpr int64_t kMessage = 512 << 10;
  TestServer::Options options;
  options.limits.max_message_bytes = kMessage;
  options.limits.max_in_flight_bytes = 4 * kMessage;
  options.limits.max_wait = absl::Milliseconds(100);
  StartAliceAndBob(std::move(options));
  const Client alice = As("alice"), bob = As("bob");
  v1::MatmulRequest request = OnesTimesTwos(64, 64, 1024);
  const auto multiply = [&](const Client& client) {
    return MultiplyAnnounced(client, request, kMessage);
  };
  ASSERT_TRUE(multiply(alice).ok());
  const Announced first(*server_, alice, kMessage);
  const Announced second(*server_, alice, kMessage);
  // She has half of it by now, by whatever connections.
  EXPECT_TRUE(testing::Eventually([&] {
    const grpc::Status status = multiply(alice);
    return status.error_code() == StatusCode::RESOURCE_EXHAUSTED;
  }));
  EXPECT_TRUE(multiply(bob).ok());
}

TEST_F(IdentityTest, AQuotaOfBytesOnTheirWayIsOnesOwnAndMayChange) {
  constexpr int64_t kMessage = 512 << 10;
  TestServer::Options options;
  options.limits.max_message_bytes = 4 * kMessage;
  options.limits.max_in_flight_bytes = 8 * kMessage;
  options.limits.max_wait = absl::Milliseconds(100);
  // What is held, stays.
  options.limits.pressed_stall_timeout = options.limits.stall_timeout;
  const auto policy = [](int64_t quota) {
    return absl::StrCat(R"({"name": "alice", "roles": ["compute", "tensors"],
                            "max_in_flight_bytes": )",
                        quota, R"(}, {"name": "bob", "roles": ["compute"]})");
  };
  Start(policy(kMessage), std::move(options));
  const Client alice = As("alice"), bob = As("bob");
  const v1::MatmulRequest request = OnesTimesTwos(64, 64, 1024);
  const auto multiply = [&](const Client& client, int messages = 1) {
    return MultiplyAnnounced(client, request, messages * kMessage);
  };
  const auto refused = [](const grpc::Status& status, const std::string& text) {
    EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(status.error_message(), text);
  };
  ASSERT_TRUE(multiply(alice).ok());
  refused(multiply(alice, 2),
          "1048576 bytes of requests can never be held: the principal's limit "
          "is 524288 (max_in_flight_bytes)");
  EXPECT_TRUE(multiply(bob, 4).ok());
  // A small request with a large answer.
  const v1::MatmulRequest large = OnesTimesTwos(512, 512, 1);
  refused(alice.Multiply(large),
          "1048576 bytes of responses can never be held: the principal's limit "
          "is 524288 (max_in_flight_bytes)");
  EXPECT_TRUE(bob.Multiply(large).ok());
  // What goes in parts needs room for one.
  std::string handle;
  ASSERT_TRUE(alice.Create(8192, &handle).ok());
  EXPECT_TRUE(alice.Download(handle).ok());

  const Announced held(*server_, alice, kMessage);
  const std::string waited =
      "the daemon waited for room for 524288 bytes of requests and did not get "
      "it; it holds 524288, the limit is 4194304, of which the principal holds "
      "524288 and gets 524288 (max_in_flight_bytes). Try again later.";
  EXPECT_TRUE(testing::Eventually(
      [&] { return multiply(As("alice")).error_message() == waited; }));
  EXPECT_TRUE(multiply(bob).ok());
  // The policy changes while the daemon runs.
  files_.WritePolicy(policy(2 * kMessage));
  EXPECT_TRUE(testing::Eventually([&] { return multiply(alice).ok(); }));
  files_.WritePolicy(policy(kMessage));
  EXPECT_TRUE(testing::Eventually(
      [&] { return multiply(alice).error_message() == waited; }));
}

TEST_F(IdentityTest, ATensorOfAConnectionEndsWithItAndNotWithItsPrincipal) {
  StartAliceAndBob();
  const Client alice = As("alice");
  std::string handle;
  {
    const Client other = As("alice");
    ASSERT_TRUE(other.Create(64, &handle, /*bound=*/true).ok());
    ASSERT_TRUE(alice.Describe(handle).ok());
  }
  EXPECT_TRUE(
      testing::Eventually([&] { return !alice.Describe(handle).ok(); }));
}

// Whoever asks more often gets no more than his weight, and who has more of it
// gets more.
TEST_F(IdentityTest, TimeOfTheDeviceIsSharedByWeight) {
  TestServer::Options options;
  options.executor.lanes = 1;
  Start(R"({"name": "alice", "roles": ["compute"], "weight": 4},
           {"name": "bob", "roles": ["compute"]})",
        std::move(options));
  std::atomic<int> all = 0;
  std::map<std::string, std::atomic<int>> done;
  done["alice"] = 0;
  done["bob"] = 0;
  const v1::MatmulRequest request = OnesTimesTwos(192, 192, 192);
  ASSERT_TRUE(As("alice").Multiply(request).ok());  // Its kernel is there.
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    for (const char* const name : {"alice", "bob"}) {
      threads.emplace_back([&, name, client = As(name)] {
        while (all < 400) {
          if (!client.Multiply(request).ok()) continue;
          if (all++ < 400) ++done[name];
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NEAR(done["alice"], 320, 0.2 * 320);
  EXPECT_NEAR(done["bob"], 80, 0.2 * 320);
}

TEST(WithoutIdentityTest, EverybodyMayUseAHandleThatHeKnows) {
  TestServer server;
  const Client one(server.address(), ""), other(server.address(), "");
  std::string handle;
  ASSERT_TRUE(one.Create(64, &handle).ok());
  EXPECT_TRUE(other.Describe(handle).ok());
  EXPECT_TRUE(other.Handles().empty());
  EXPECT_TRUE(other.Statistics().has_cache());
  // A token means nothing where nobody is asked for one.
  EXPECT_TRUE(Client(server.address(), "alice").Create(64).ok());
}

}  // namespace
}  // namespace gemmd
