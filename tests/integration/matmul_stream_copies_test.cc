// What goes on while a part of an operand is on its way to the device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/clock.h"
#include "tests/integration/eventually.h"
#include "tests/integration/matmul_stream_fixture.h"
#include "tests/integration/sanitizer.h"
#include "tests/service/gate.h"

namespace gemmd {
namespace {

using testing::Eventually;
using ::testing::HasSubstr;
using testing::kMiB;
using testing::OnesTimesTwos;
using testing::Stream;
using testing::StreamChunk;
using testing::StreamHeader;
using testing::TestServer;

// Copies to the device that a test holds up or lets fail.
class HeldCopies : public ::testing::Test {
 protected:
  HeldCopies() {
    hooks_->upload = [this] {
      gate_.Pass();
      return copied_;
    };
    TestServer::Options options;
    options.hooks = hooks_;
    options.limits.max_message_bytes = 64 * kMiB;
    // Of which one connection has half: two parts and a message.
    options.limits.max_in_flight_bytes = 140 * kMiB;
    options.limits.stall_timeout = absl::Minutes(10);
    options.limits.pressed_stall_timeout = absl::Minutes(10);
    server_.emplace(options);
    stub_ = v1::MatmulService::NewStub(server_->channel());
    // One line of 72 MiB each.
    v1::MatmulHeader header = OnesTimesTwos(1, 1, 0).header();
    header.mutable_problem()->set_k(36 * kMiB);
    header.mutable_problem()->set_b_order(v1::ORDER_COLUMN_MAJOR);
    context_.AddMetadata("gemmd-message-bytes", std::to_string(5 * kMiB));
    stream_ = stub_->MatmulStream(&context_);
    EXPECT_TRUE(stream_->Write(StreamHeader(header)));
  }
  ~HeldCopies() override { gate_.Open(); }

  bool WriteMebibytes(int count) {
    const Stream chunk =
        StreamChunk(Stream::OPERAND_A, std::string(4 * kMiB, '\0'));
    bool open = true;
    for (int i = 0; open && i < count; i += 4) open = stream_->Write(chunk);
    return open;
  }
  void ExpectNothingHeld() {
    EXPECT_TRUE(
        Eventually([&] { return server_->engine().tensors().bytes() == 0; }));
  }

  testing::Gate gate_;
  absl::Status copied_;
  const std::shared_ptr<testing::Hooks> hooks_ =
      std::make_shared<testing::Hooks>();
  std::optional<TestServer> server_;
  std::unique_ptr<v1::MatmulService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<Stream, v1::MatmulStreamResponse>>
      stream_;
};

TEST_F(HeldCopies, TheNextPartArrivesWhileOneIsOnItsWay) {
  gate_.Close();
  ASSERT_TRUE(WriteMebibytes(8));
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  // Far more than anybody takes who does not read.
  auto more =
      std::async(std::launch::async, [&] { return WriteMebibytes(28); });
  EXPECT_EQ(more.wait_for(testing::kPatience / 2), std::future_status::ready);
  gate_.Open();
  EXPECT_TRUE(more.get());
  context_.TryCancel();
  stream_->Finish();
  ExpectNothingHeld();
}

// However long a client is silent: there would be no room for another message
// beside the part that it has sent.
TEST_F(HeldCopies, WhatHasGoneToTheDeviceIsHeldNoLonger) {
  ASSERT_TRUE(WriteMebibytes(32));
  const v1::MatmulRequest other = OnesTimesTwos(1, 1, 10 * kMiB);
  EXPECT_TRUE(Eventually([&] {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(
        absl::Now() + absl::Seconds(20 * testing::kSanitizerSlowness)));
    context.AddMetadata("gemmd-message-bytes",
                        std::to_string(other.ByteSizeLong()));
    v1::MatmulResponse response;
    return stub_->Matmul(&context, other, &response).ok();
  }));
  context_.TryCancel();
  stream_->Finish();
  ExpectNothingHeld();
}

// The device reads it where it lies: in the memory of the call.
TEST_F(HeldCopies, NoCallEndsBeforeWhatItHasOnItsWay) {
  gate_.Close();
  ASSERT_TRUE(WriteMebibytes(32));
  ASSERT_TRUE(gate_.WaitForArrivals(1));
  ASSERT_TRUE(stream_->Write(StreamHeader({})));
  auto end = std::async(std::launch::async, [&] { return stream_->Finish(); });
  EXPECT_EQ(end.wait_for(std::chrono::milliseconds(300)),
            std::future_status::timeout);
  gate_.Open();
  const grpc::Status status = end.get();
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("header comes again"));
  ExpectNothingHeld();
}

TEST_F(HeldCopies, ACopyThatFailsEndsTheCall) {
  copied_ = absl::DataLossError("a bit fell over");
  while (WriteMebibytes(32)) continue;
  const grpc::Status status = stream_->Finish();
  EXPECT_EQ(status.error_code(), grpc::DATA_LOSS);
  EXPECT_EQ(status.error_message(), "a bit fell over");
  ExpectNothingHeld();
}

}  // namespace
}  // namespace gemmd
