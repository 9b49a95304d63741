// Room for tensors that some clients hold and do not use, and others need.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::TestServer;

constexpr int64_t kKiB = 1024;
// Longer than anything takes, shorter than a test's time-out.
constexpr absl::Duration kPatience = absl::Seconds(60);

// A client with a connection of its own.
class Client {
 public:
  explicit Client(const TestServer& server)
      : stub_(v1::TensorService::NewStub(testing::Connect(server.address()))) {}

  grpc::Status Create(int64_t bytes, v1::TensorInfo* info) {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_F32);
    request.set_rows(bytes / 4 / 64);
    request.set_columns(64);
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
    return stub_->CreateTensor(&context, request, info);
  }

  // Sends new elements, but for the last of them, and no more. True when the
  // daemon has taken the header.
  bool Stall(TestServer& server, const v1::TensorInfo& info) {
    auto stalled = std::make_unique<Stalled>();
    stalled->stream = stub_->UploadTensor(&stalled->context, &stalled->info);
    v1::UploadTensorRequest message;
    message.mutable_header()->set_handle(info.handle());
    const int64_t before = server.engine().tensors().bytes();
    bool open = stalled->stream->Write(message);
    message.set_data(std::string(4 * kKiB, 'x'));
    open = open && stalled->stream->Write(message);
    stalled_.push_back(std::move(stalled));
    const absl::Time end = absl::Now() + absl::Seconds(2);
    while (open && server.engine().tensors().bytes() == before) {
      if (absl::Now() > end) return false;
      absl::SleepFor(absl::Milliseconds(2));
    }
    return open;
  }
  ~Client() {
    for (const auto& stalled : stalled_) {
      stalled->context.TryCancel();
      stalled->stream->Finish();
    }
  }

 private:
  struct Stalled {
    grpc::ClientContext context;
    v1::TensorInfo info;
    std::unique_ptr<grpc::ClientWriter<v1::UploadTensorRequest>> stream;
  };

  std::unique_ptr<v1::TensorService::Stub> stub_;
  std::vector<std::unique_ptr<Stalled>> stalled_;
};

TestServer::Options OneMebibyte() {
  TestServer::Options options;
  options.limits.max_tensor_bytes = 1024 * kKiB;
  options.limits.stall_timeout = absl::Minutes(10);
  options.limits.pressed_stall_timeout = absl::Milliseconds(200);
  return options;
}

TEST(TensorSharesTest, WhoStallsUploadsHoldsNotAllOfTheRoom) {
  TestServer server(OneMebibyte());
  Client staller(server), honest(server);
  v1::TensorInfo info;
  ASSERT_TRUE(staller.Create(64 * kKiB, &info).ok());
  int uploads = 0;
  while (uploads < 20 && staller.Stall(server, info)) ++uploads;
  EXPECT_EQ(uploads, 11);  // Three quarters, with the tensor.
  const grpc::Status created = honest.Create(256 * kKiB, &info);
  EXPECT_TRUE(created.ok()) << created.error_message();
}

TEST(TensorSharesTest, WhoCreatesHoldsNotAllOfTheRoom) {
  TestServer server(OneMebibyte());
  Client greedy(server), honest(server);
  v1::TensorInfo info;
  int tensors = 0;
  while (tensors < 20 && greedy.Create(64 * kKiB, &info).ok()) ++tensors;
  EXPECT_EQ(tensors, 12);
  const grpc::Status created = honest.Create(256 * kKiB, &info);
  EXPECT_TRUE(created.ok()) << created.error_message();
}

// Two clients that stall hold all of it between them, for the ten minutes that
// they may stall for when nobody else comes.
TEST(TensorSharesTest, StalledUploadsEndWhenOthersNeedTheirRoom) {
  TestServer server(OneMebibyte());
  Client first(server), second(server), honest(server);
  v1::TensorInfo info;
  ASSERT_TRUE(first.Create(192 * kKiB, &info).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(first.Stall(server, info));
  ASSERT_TRUE(second.Create(128 * kKiB, &info).ok());
  ASSERT_TRUE(second.Stall(server, info));
  EXPECT_EQ(server.engine().tensors().free_bytes(0), 0);
  EXPECT_EQ(honest.Create(64 * kKiB, &info).error_code(),
            grpc::RESOURCE_EXHAUSTED);
  grpc::Status created;
  const absl::Time end = absl::Now() + kPatience;
  do {
    absl::SleepFor(absl::Milliseconds(50));
    created = honest.Create(64 * kKiB, &info);
  } while (!created.ok() && absl::Now() < end);
  EXPECT_TRUE(created.ok()) << created.error_message();
}

}  // namespace
}  // namespace gemmd
