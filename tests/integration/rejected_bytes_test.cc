// What is refused for its bytes: messages that are too large, and those for
// which there is no room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/integration/raw_http2.h"
#include "tests/integration/rejections_fixture.h"

namespace gemmd {
namespace {

using testing::kMatmul;
using testing::OnesTimesTwos;
using testing::RawHttp2;
using testing::RejectionsTest;

class RejectedBytesTest : public RejectionsTest {
 protected:
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
};

TEST_F(RejectedBytesTest, RoomForRequests) {
  Start({.limits = {.max_message_bytes = 100 << 10,
                    .max_in_flight_bytes = 100 << 10,
                    .max_wait = absl::Milliseconds(300)}});
  ExpectRefusedBesideAnother(
      [&] { return Announced("90000", OnesTimesTwos(200, 1, 200)); });
  ExpectMet({{"request_budget", 1}});
}

// An answer that nobody takes leaves none for the next one.
TEST_F(RejectedBytesTest, RoomForAnswers) {
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
TEST_F(RejectedBytesTest, MessagesThatAreTooLarge) {
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

// More than the daemon has room for, of messages that nobody announced.
TEST_F(RejectedBytesTest, BytesThatFindNoRoom) {
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

}  // namespace
}  // namespace gemmd
