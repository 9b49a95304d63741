// What a client may do as soon as it has an answer, though the daemon does not
// know yet that it has: the calls of gRPC's own clients come that fast.
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using grpc::StatusCode;
using testing::Connect;
using testing::TestServer;

// Enough for one in a hundred to be seen.
constexpr int kCalls = 20000;
constexpr int kAtOnce = 60;

// One after the other, kAtOnce of which run.
class Calls {
 public:
  // Sees to how one has ended, and may begin others.
  using Ended = std::function<void(const grpc::Status&)>;

  void Begin(grpc::GenericStub& stub, const std::string& method,
             const std::string& request, const std::string& key, Ended ended) {
    auto* const call = new Call;
    call->ended = std::move(ended);
    if (!key.empty()) call->context.AddMetadata("gemmd-idempotency-key", key);
    const grpc::Slice slice(request);
    call->reader = stub.PrepareUnaryCall(&call->context, method,
                                         grpc::ByteBuffer(&slice, 1), &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->response, &call->status, call);
    ++running_;
  }

  // Until none runs.
  void Run() {
    void* tag;
    bool ok;
    while (running_ > 0 && queue_.Next(&tag, &ok)) {
      const std::unique_ptr<Call> call(static_cast<Call*>(tag));
      --running_;
      call->ended(call->status);
    }
  }

 private:
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    grpc::ByteBuffer response;
    grpc::Status status;
    Ended ended;
  };

  grpc::CompletionQueue queue_;
  int running_ = 0;
};

// Of a connection's calls, those beyond its share wait at the client.
TEST(AnsweredCalls, WhoKeepsToTheShareOfItsConnectionIsRefusedNothing) {
  TestServer::Options options;
  options.limits.max_calls_per_connection = 20;
  TestServer server(options);
  grpc::GenericStub stub(Connect(server.unix_target()));
  Calls calls;
  int left = kCalls;
  int refused = 0;
  const std::function<void()> next = [&] {
    if (left-- <= 0) return;
    calls.Begin(stub, "/grpc.health.v1.Health/Check", "", "",
                [&](const grpc::Status& status) {
                  refused += !status.ok();
                  next();
                });
  };
  for (int i = 0; i < kAtOnce; ++i) next();
  calls.Run();
  EXPECT_EQ(refused, 0);
}

TEST(AnsweredCalls, OneThatFailedIsCarriedOutWhenItComesAgain) {
  TestServer server;
  // By another connection, as after the loss of the first.
  grpc::GenericStub first(Connect(server.unix_target()));
  grpc::GenericStub second(Connect(server.unix_target()));
  Calls calls;
  v1::DescribeTensorRequest request;
  request.set_handle(std::string(32, '0'));
  const std::string bytes = request.SerializeAsString();
  int left = kCalls;
  int others = 0;
  const std::function<void()> next = [&] {
    if (left-- <= 0) return;
    const std::string key = absl::StrFormat("key-%016d", left);
    const auto begin = [&calls, &bytes, key](auto& stub, auto ended) {
      calls.Begin(stub, "/gemmd.v1.TensorService/DescribeTensor", bytes, key,
                  ended);
    };
    begin(first, [&, begin](const grpc::Status& status) {
      others += status.error_code() != StatusCode::NOT_FOUND;
      begin(second, [&](const grpc::Status& again) {
        others += again.error_code() != StatusCode::NOT_FOUND;
        next();
      });
    });
  };
  for (int i = 0; i < kAtOnce; ++i) next();
  calls.Run();
  EXPECT_EQ(others, 0);
}

}  // namespace
}  // namespace gemmd
