// The limits of one call: of its bytes, its time and its silence. What a client
// can take from others: limits_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cpp/client.h"
#include "tests/integration/abusers.h"
#include "tests/integration/create_tensor.h"
#include "tests/integration/raw_http2.h"
#include "tests/integration/sanitizer.h"
#include "tests/integration/shared_region.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using ::testing::HasSubstr;
using testing::OnesTimesTwos;
using testing::RawHttp2;
using testing::TestServer;

constexpr char kMatmul[] = "/gemmd.v1.MatmulService/Matmul";
constexpr int64_t kMiB = 1 << 20;
// Longer than any limit of these tests, shorter than a test's time-out.
constexpr absl::Duration kPatience =
    absl::Seconds(60 * testing::kSanitizerSlowness);

// Of a message that takes minutes at the least rate, progress comes so often,
// and yet by far too little.
constexpr uint32_t kEndlessBytes = 512 << 20;
constexpr size_t kTrickleBytes = 66 << 10;
constexpr absl::Duration kBetweenTrickles = absl::Milliseconds(150);

class LimitsOfAServer : public ::testing::Test {
 protected:
  static TestServer::Options Hasty() {
    TestServer::Options options;
    options.limits.stall_timeout = absl::Milliseconds(500);
    options.limits.pressed_stall_timeout = absl::Milliseconds(300);
    return options;
  }
  // Goes on with `step`, between which the daemon's answers are read, until it
  // has ended `calls`.
  static void DoUntilEnded(RawHttp2& client, int64_t calls,
                           absl::Duration between,
                           absl::FunctionRef<void()> step) {
    const absl::Time start = absl::Now();
    while (client.ended() < calls && absl::Now() - start < kPatience) {
      step();
      client.Read(between);
    }
  }
  static void ReadUntilEnded(RawHttp2& client, int64_t calls = 1) {
    DoUntilEnded(client, calls, absl::Milliseconds(20), [] {});
  }
  static std::string CreateF32(TestServer& server, int64_t rows,
                               int64_t columns) {
    return testing::CreateTensor(server.channel(), v1::DATA_TYPE_F32, rows,
                                 columns)
        .handle();
  }
};

TEST_F(LimitsOfAServer, ASmallRequestIsSmall) {
  TestServer server;
  const grpc::Status status = server.CallRaw(
      "/gemmd.v1.TensorService/CreateTensor", std::string(65537, '\0'));
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("65537 bytes; allowed: 65536"));
}

TEST_F(LimitsOfAServer, AnAnnouncedMessageThatIsTooLargeIsNotRead) {
  TestServer::Options options;
  options.limits.max_message_bytes = kMiB;
  TestServer server(options);
  grpc::ClientContext context;
  context.AddMetadata("gemmd-message-bytes", std::to_string(kMiB + 1));
  v1::MatmulResponse response;
  const auto stub = v1::MatmulService::NewStub(server.channel());
  const grpc::Status status =
      stub->Matmul(&context, OnesTimesTwos(2, 2, 2), &response);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("allowed: 1048576"));
}

// A few KiB would take any room on the device, and time of a lane.
TEST_F(LimitsOfAServer, MatricesThatOverlapAreNoMoreThanAMessage) {
  TestServer::Options options;
  options.limits.max_message_bytes = 256 << 10;
  TestServer server(options);
  testing::SharedRegion region(server);
  const auto stub = v1::MatmulService::NewStub(server.unix_channel());
  const auto expect_refused = [](const grpc::Status& status,
                                 const std::string& layout) {
    EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_THAT(
        status.error_message(),
        HasSubstr(layout +
                  ".batch_stride is 1, so that 2048 matrices overlap, "
                  "which have 524288 bytes apart; the limit is 262144"));
  };
  const auto multiply = [&](const v1::MatmulRequest& request) {
    grpc::ClientContext context;
    v1::MatmulResponse response;
    return stub->Matmul(&context, request, &response);
  };
  v1::MatmulRequest request = OnesTimesTwos(1, 1, 128);
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_problem()->set_batch(2048);
  header.mutable_b()->mutable_inline_()->set_batch_stride(0);
  v1::Layout& layout = *header.mutable_a()->mutable_inline_();
  layout.set_batch_stride(0);
  const grpc::Status of_one = multiply(request);
  EXPECT_TRUE(of_one.ok()) << of_one.error_message();

  layout.set_batch_stride(1);
  request.set_a(OnesTimesTwos(1, 1, 2047 + 128).a());
  expect_refused(multiply(request), "a.inline");
  {
    v1::MatmulGroupedRequest group;
    *group.add_groups() = request;
    grpc::ClientContext context;
    v1::MatmulGroupedResponse response;
    expect_refused(stub->MatmulGrouped(&context, group, &response),
                   "groups[0]: a.inline");
  }
  {
    v1::SequenceRequest sequence;
    v1::SequenceOperand& operand = *sequence.add_operands();
    operand.set_name("x");
    *operand.mutable_layout() = layout;
    operand.set_data(request.a());
    v1::SequenceOperand& twos = *sequence.add_operands();
    twos.set_name("twos");
    *twos.mutable_layout() = header.b().inline_();
    twos.set_data(request.b());
    v1::MatmulHeader& step = *sequence.add_steps();
    *step.mutable_problem() = header.problem();
    step.mutable_a()->set_name("x");
    step.mutable_b()->set_name("twos");
    grpc::ClientContext context;
    v1::SequenceResponse response;
    expect_refused(stub->Sequence(&context, sequence, &response),
                   "operand \"x\": layout");
  }
  region.Put(0, request.a());
  request.clear_a();
  v1::RegionPart part;
  region.Name(0, part);
  *part.mutable_layout() = layout;
  *header.mutable_a()->mutable_region() = part;
  expect_refused(multiply(request), "a.region.layout");
}

TEST_F(LimitsOfAServer, ASilentCallIsEnded) {
  TestServer server(Hasty());
  RawHttp2 client(server.address());
  client.Open(kMatmul);
  const absl::Time start = absl::Now();
  ReadUntilEnded(client);
  EXPECT_EQ(client.ended(), 1);
  EXPECT_TRUE(client.alive());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(300));
}

TEST_F(LimitsOfAServer, ACallThatTricklesIsEnded) {
  TestServer server(Hasty());
  RawHttp2 client(server.address());
  const uint32_t stream = client.Open(kMatmul);
  client.SendPrefix(stream, kEndlessBytes);
  DoUntilEnded(client, 1, kBetweenTrickles, [&] {
    client.Send(stream, std::string(kTrickleBytes, '\0'), false);
  });
  EXPECT_EQ(client.ended(), 1);
}

// Silence that was allowed, before others had to wait, is no arrears.
TEST_F(LimitsOfAServer, TheRateOfAMessageIsThatSinceItBegan) {
  TestServer::Options options;
  options.limits.stall_timeout = kPatience;
  const absl::Duration timeout =
      testing::kSanitizerSlowness * absl::Seconds(1);
  options.limits.pressed_stall_timeout = timeout;
  options.limits.max_calls = 3;  // Two are half of them, and more.
  TestServer server(options);
  RawHttp2 client(server.address());
  const uint32_t stream = client.Open(kMatmul);
  client.Read(2 * timeout);
  client.SendPrefix(stream, kEndlessBytes);
  client.Send(stream, std::string(256 << 10, '\0'), false);
  server.cache().Hold(true);
  auto other = std::async(std::launch::async, [&] {
    v1::MatmulResponse response;
    grpc::ClientContext context;
    return v1::MatmulService::NewStub(server.channel())
        ->Matmul(&context, OnesTimesTwos(2, 2, 2), &response);
  });
  server.cache().WaitForGets(1);
  // For more than two looks at it: the first finds it late.
  const absl::Time pressed = absl::Now();
  while (absl::Now() - pressed < 0.8 * timeout) {
    client.Send(stream, std::string(128 << 10, '\0'), false);
    client.Read(absl::Milliseconds(100));
  }
  EXPECT_EQ(client.ended(), 0);
  server.cache().Hold(false);
  EXPECT_TRUE(other.get().ok());
}

// However steadily they send.
TEST_F(LimitsOfAServer, ThoseWhoHoldAllRoomLeaveItToOneWhoWaits) {
  constexpr int64_t kMessageBytes = 32 * kMiB;
  TestServer::Options options;
  options.limits.max_message_bytes = kMessageBytes;
  options.limits.max_in_flight_bytes = 4 * kMessageBytes;
  options.limits.max_wait = testing::kSanitizerSlowness * absl::Seconds(6);
  TestServer server(options);
  RawHttp2 holders[] = {RawHttp2(server.address()), RawHttp2(server.address())};
  std::vector<std::pair<RawHttp2*, uint32_t>> messages;
  for (int i = 0; i < 2; ++i) {
    for (RawHttp2& holder : holders) {
      messages.emplace_back(
          &holder, holder.Open(kMatmul, "60S", absl::StrCat(kMessageBytes)));
      holder.SendPrefix(messages.back().second, kMessageBytes);
    }
  }
  const auto send = [&] {
    for (const auto& [holder, stream] : messages) {
      holder->Send(stream, std::string(kMiB / 8, '\0'), false,
                   absl::Milliseconds(50));
    }
  };
  send();
  auto other = std::async(std::launch::async, [&] {
    v1::MatmulResponse response;
    const v1::MatmulRequest request = OnesTimesTwos(1, 1, 200'000);
    grpc::ClientContext context;
    context.AddMetadata("gemmd-message-bytes",
                        absl::StrCat(request.ByteSizeLong()));
    return v1::MatmulService::NewStub(server.channel())
        ->Matmul(&context, request, &response);
  });
  const absl::Time start = absl::Now();
  while (other.wait_for(std::chrono::milliseconds(50)) !=
         std::future_status::ready) {
    send();
  }
  EXPECT_GT(absl::Now() - start, absl::Seconds(1)) << "there was room";
  const grpc::Status status = other.get();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(LimitsOfAServer, ACallIsEndedThoughOthersOfItsConnectionAreNot) {
  TestServer server(Hasty());
  RawHttp2 client(server.address());
  const uint32_t stream = client.Open(kMatmul);
  client.SendPrefix(stream, kEndlessBytes);
  client.Read(kBetweenTrickles);  // It is being read when the others come.
  int64_t others = 0;
  const absl::Time start = absl::Now();
  // None goes once it is ended.
  while (client.Send(stream, std::string(kTrickleBytes, '\0'), false) > 0 &&
         absl::Now() - start < kPatience) {
    const uint32_t other = client.Open(kMatmul);
    client.SendPrefix(other, kMiB);
    client.Send(other, std::string(kMiB, '\0'), true);
    ++others;  // Ended, as what it has sent is no request.
    client.Read(kBetweenTrickles);
  }
  ReadUntilEnded(client, others + 1);
  EXPECT_EQ(client.ended(), others + 1);
}

TEST_F(LimitsOfAServer, AnAnswerInManyMessagesThatIsTakenTooSlowlyIsEnded) {
  TestServer server(Hasty());
  v1::DownloadTensorRequest request;
  request.set_handle(CreateF32(server, 1024, 1024));
  request.set_chunk_bytes(1024);
  const std::string bytes = request.SerializeAsString();
  RawHttp2 client(server.address());
  const uint32_t stream = client.Open("/gemmd.v1.TensorService/DownloadTensor");
  client.SendPrefix(stream, static_cast<uint32_t>(bytes.size()));
  client.Send(stream, bytes, true);
  constexpr uint8_t kWindowUpdate = 8;
  const std::string four_messages("\0\0\x10\0", 4);
  DoUntilEnded(client, 1, kBetweenTrickles, [&] {
    for (const uint32_t of : {uint32_t{0}, stream}) {
      client.Write(RawHttp2::FrameOf(kWindowUpdate, 0, of, four_messages));
    }
  });
  EXPECT_EQ(client.ended(), 1);
}

TEST_F(LimitsOfAServer, ACallWhoseAnswerIsNotReadIsEnded) {
  TestServer server(Hasty());
  RawHttp2 client(server.address());
  const std::string request = testing::LargeAnswerRequest(1024);
  const uint32_t stream = client.Open(kMatmul);
  client.SendPrefix(stream, static_cast<uint32_t>(request.size()));
  client.Send(stream, request, true);
  ReadUntilEnded(client);
  EXPECT_EQ(client.ended(), 1);
}

TEST_F(LimitsOfAServer, ACallWithoutADeadlineHasOne) {
  TestServer::Options options;
  options.limits.max_call_time = absl::Milliseconds(500);
  TestServer server(options);
  server.cache().Hold(true);
  v1::MatmulResponse response;
  grpc::ClientContext context;
  const auto stub = v1::MatmulService::NewStub(server.channel());
  auto call = std::async(std::launch::async, [&] {
    return stub->Matmul(&context, OnesTimesTwos(2, 2, 2), &response);
  });
  server.cache().WaitForGets(1);
  absl::SleepFor(absl::Seconds(1));
  server.cache().Hold(false);
  EXPECT_EQ(call.get().error_code(), grpc::DEADLINE_EXCEEDED);
}

TEST_F(LimitsOfAServer, ALineLongerThanTheBudgetTravelsInPieces) {
  TestServer::Options options;
  options.limits.max_message_bytes = 256 << 10;
  options.limits.max_in_flight_bytes = 512 << 10;
  TestServer server(options);
  auto client = client::Client::Connect(server.address(), {});
  ASSERT_TRUE(client.ok()) << client.status();
  const std::string handle = CreateF32(server, 2, 1'000'001);
  std::string bytes(2 * 4 * 1'000'001, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 2654435761u >> 13);
  }
  // In chunks that do not fit anything.
  const auto stub = v1::TensorService::NewStub(server.channel());
  grpc::ClientContext context;
  v1::TensorInfo info;
  auto stream = stub->UploadTensor(&context, &info);
  v1::UploadTensorRequest message;
  message.mutable_header()->set_handle(handle);
  ASSERT_TRUE(stream->Write(message));
  for (size_t at = 0; at < bytes.size(); at += 100'003) {
    message.set_data(bytes.substr(at, 100'003));
    ASSERT_TRUE(stream->Write(message));
  }
  stream->WritesDone();
  const grpc::Status sent = stream->Finish();
  ASSERT_TRUE(sent.ok()) << sent.error_message();
  std::string back(bytes.size(), '\0');
  const absl::Status received =
      (*client)->DownloadTensor(handle, {}, absl::MakeSpan(back));
  ASSERT_TRUE(received.ok()) << received;
  EXPECT_TRUE(back == bytes);
}

// Eight times the budget, each message waiting for room.
TEST_F(LimitsOfAServer, AnUploadGivesBackWhatHasGoneToTheDevice) {
  TestServer::Options options;
  options.limits.max_message_bytes = 256 << 10;
  options.limits.max_in_flight_bytes = 512 << 10;
  options.limits.max_wait = absl::Seconds(5);
  TestServer server(options);
  const auto stub = v1::TensorService::NewStub(server.channel());
  const std::string handle = CreateF32(server, 1024, 1024);
  v1::TensorInfo info;
  for (int round = 0; round < 2; ++round) {  // At its end, too.
    grpc::ClientContext uploading;
    uploading.AddMetadata("gemmd-message-bytes", std::to_string(200 << 10));
    auto stream = stub->UploadTensor(&uploading, &info);
    v1::UploadTensorRequest message;
    message.mutable_header()->set_handle(handle);
    bool open = stream->Write(message);
    for (int64_t left = 4 * kMiB; open && left > 0; left -= 128 << 10) {
      message.set_data(std::string(128 << 10, 'x'));
      open = stream->Write(message);
    }
    stream->WritesDone();
    const grpc::Status sent = stream->Finish();
    ASSERT_TRUE(sent.ok()) << sent.error_message();
  }
}

TEST_F(LimitsOfAServer, ASilentUploadKeepsNoTensor) {
  TestServer server;
  const auto stub = v1::TensorService::NewStub(server.channel());
  const std::string handle = CreateF32(server, 100, 100);
  v1::TensorInfo info;
  grpc::ClientContext uploading;
  auto stream = stub->UploadTensor(&uploading, &info);
  v1::UploadTensorRequest message;
  message.mutable_header()->set_handle(handle);
  ASSERT_TRUE(stream->Write(message));
  message.set_data(std::string(1000, 'x'));
  ASSERT_TRUE(stream->Write(message));
  // For the daemon to take both, and to wait for more.
  absl::SleepFor(absl::Milliseconds(200));
  grpc::ClientContext deleting;
  v1::DeleteTensorRequest remove;
  remove.set_handle(handle);
  v1::DeleteTensorResponse removed;
  ASSERT_TRUE(stub->DeleteTensor(&deleting, remove, &removed).ok());
  EXPECT_EQ(server.engine().tensors().bytes(), 0);
  message.set_data(std::string(39000, 'x'));
  stream->Write(message);
  stream->WritesDone();
  EXPECT_EQ(stream->Finish().error_code(), grpc::NOT_FOUND);
}

}  // namespace
}  // namespace gemmd
