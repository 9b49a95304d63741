// Room on the device and in the budgets: who gets it, who waits for it, and
// that it is given back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/integration/create_tensor.h"
#include "tests/integration/matmul_stream_fixture.h"
#include "tests/integration/raw_call.h"

namespace gemmd {
namespace {

using testing::CallStream;
using testing::Eventually;
using testing::kMiB;
using testing::MatmulStreamTest;
using testing::OnesTimesTwos;
using testing::RandomProduct;
using testing::Stream;
using testing::StreamAnswer;
using testing::StreamHeader;
using testing::TestServer;
using testing::ToStream;

class SmallMessages : public MatmulStreamTest {
 protected:
  static TestServer::Options Small() {
    TestServer::Options options;
    options.limits.max_message_bytes = kMiB;
    options.limits.max_in_flight_bytes = 2 * kMiB;
    options.limits.max_tensor_bytes = 64 * kMiB;
    options.limits.stall_timeout = absl::Seconds(20);
    return options;
  }
  SmallMessages() : MatmulStreamTest(Small()) {}

  // 4 MiB of A, 4 of D.
  static v1::MatmulRequest Large() { return RandomProduct(1024, 1024, 2048); }
};

TEST_F(SmallMessages, OperandsAndResultsMayBeLargerThanAMessage) {
  v1::MatmulRequest request = RandomProduct(1500, 700, 901);
  EXPECT_EQ(server_
                .CallRaw("/gemmd.v1.MatmulService/Matmul",
                         request.SerializeAsString())
                .error_code(),
            grpc::RESOURCE_EXHAUSTED);
  const StreamAnswer answer =
      CallStream(server_.channel(), ToStream(request, kMiB - 100));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_LE(answer.largest_bytes, kMiB);
  TestServer roomy;
  v1::MatmulResponse unary;
  grpc::ClientContext context;
  ASSERT_TRUE(v1::MatmulService::NewStub(roomy.channel())
                  ->Matmul(&context, request, &unary)
                  .ok());
  EXPECT_EQ(answer.response.d(), unary.d());
  ExpectRefused(ToStream(request, kMiB + 1), "allowed: 1048576",
                grpc::RESOURCE_EXHAUSTED);
}

TEST_F(SmallMessages, WhatNeverFitsOnTheDeviceIsRefusedAtOnce) {
  v1::MatmulRequest request = OnesTimesTwos(0, 0, 0);
  v1::Problem& problem = *request.mutable_header()->mutable_problem();
  problem.set_m(7000);  // Three quarters are 48 MiB.
  problem.set_n(2000);
  const absl::Time start = absl::Now();
  ExpectRefused(
      {StreamHeader(request.header())},
      "operands and results on the device: ", grpc::RESOURCE_EXHAUSTED);
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
}

TEST(RoomThatTensorsHaveTest, IsWaitedForAsLongAsIsAllowed) {
  TestServer::Options options;
  options.limits.max_tensor_bytes = 64 * kMiB;
  options.limits.max_wait = absl::Milliseconds(300);
  TestServer server(options);
  // 40 MiB of the three quarters of 64 that a client may have.
  testing::CreateTensor(server.channel(), v1::DATA_TYPE_F32, 10 << 10, 1 << 10);
  const StreamAnswer answer = CallStream(
      server.channel(), ToStream(RandomProduct(1024, 1024, 2048), kMiB),
      absl::Seconds(20));
  EXPECT_EQ(answer.status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(answer.status.error_message(),
              ::testing::HasSubstr("no room for them in 300ms (--max-wait)"));
}

TEST_F(SmallMessages, ThoseThatDoNotFitTogetherWaitForEachOther) {
  v1::MatmulRequest request = RandomProduct(2048, 4096, 8);  // 32 MiB of D.
  std::vector<std::future<StreamAnswer>> answers;
  for (int i = 0; i < 8; ++i) {
    answers.push_back(std::async(std::launch::async, [&, i] {
      // Two connections: of each one fits, of both together one.
      return CallStream(i % 2 ? server_.channel() : server_.unix_channel(),
                        ToStream(request, 100000));
    }));
  }
  std::string d;
  for (auto& answer : answers) {
    const StreamAnswer one = answer.get();
    ASSERT_TRUE(one.status.ok()) << one.status.error_message();
    if (d.empty()) d = one.response.d();
    EXPECT_EQ(one.response.d(), d);
  }
  ExpectNothingHeld();
}

TEST_F(SmallMessages, WhoWaitsForRoomEndsWithItsDeadline) {
  const v1::TensorInfo filler = Create(v1::DATA_TYPE_F32, 1024, 12 * 1024);
  const StreamAnswer answer = CallStream(
      server_.unix_channel(), ToStream(RandomProduct(2048, 4096, 8), 100000),
      absl::Seconds(1));
  EXPECT_EQ(answer.status.error_code(), grpc::DEADLINE_EXCEEDED)
      << answer.status.error_message();
  ExpectNothingHeld(filler.device_bytes());
}

TEST_F(SmallMessages, ClientsThatVanishAnywhereLeaveNothing) {
  const std::vector<Stream> messages = ToStream(Large(), 100000);
  std::minstd_rand random(11);
  std::vector<std::thread> clients;
  const absl::Time end = absl::Now() + absl::Seconds(4);
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&, seed = random()] {
      std::minstd_rand random(seed);
      while (absl::Now() < end) {
        // A connection of its own, which ends with it.
        const auto channel = testing::Connect(server_.address());
        const auto stub = v1::MatmulService::NewStub(channel);
        grpc::ClientContext context;
        const auto stream = stub->MatmulStream(&context);
        // In the middle of the operands, of the product or of its result.
        const size_t sent = random() % (messages.size() * 2);
        bool open = true;
        for (size_t j = 0; open && j < std::min(sent, messages.size()); ++j) {
          open = stream->Write(messages[j]);
        }
        if (sent > messages.size()) {
          stream->WritesDone();
          v1::MatmulStreamResponse response;
          for (unsigned j = random() % 3; j > 0; --j) stream->Read(&response);
        }
        absl::SleepFor(absl::Milliseconds(random() % 20));
        context.TryCancel();
        stream->Finish();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  ExpectNothingHeld();
  EXPECT_EQ(server_.engine().waiting(), 0);
  // The budgets are whole, too: this needs nearly all of them.
  const StreamAnswer answer = CallStream(server_.channel(), messages);
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
}

// A stream whose header has been taken and that goes no further.
class Holder {
 public:
  Holder(TestServer& server, const std::shared_ptr<grpc::Channel>& channel,
         const v1::MatmulRequest& request)
      : stub_(v1::MatmulService::NewStub(channel)) {
    const int64_t before = server.engine().tensors().bytes();
    stream_ = stub_->MatmulStream(&context_);
    EXPECT_TRUE(stream_->Write(StreamHeader(request.header())));
    EXPECT_TRUE(
        Eventually([&] { return server.engine().tensors().bytes() > before; }));
  }
  ~Holder() {
    context_.TryCancel();
    stream_->Finish();
  }

 private:
  std::unique_ptr<v1::MatmulService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<Stream, v1::MatmulStreamResponse>>
      stream_;
};

// D of so many MiB; of 64 one connection may have 48.
v1::MatmulRequest OfMebibytes(int64_t mebibytes) {
  return RandomProduct(mebibytes * 256, 1024, 1);
}

TEST_F(SmallMessages, WhoCameFirstIsNotOvertakenByThoseWhoNeedLess) {
  auto holder =
      std::make_unique<Holder>(server_, server_.channel(), OfMebibytes(30));
  auto large = std::async(std::launch::async, [&] {
    return CallStream(server_.unix_channel(), ToStream(OfMebibytes(40), 1000))
        .status;
  });
  absl::SleepFor(absl::Milliseconds(200));  // It stands in line.
  const auto third = testing::Connect(server_.address());
  EXPECT_EQ(
      CallStream(third, ToStream(OfMebibytes(1), 1000), absl::Milliseconds(500))
          .status.error_code(),
      grpc::DEADLINE_EXCEEDED);
  holder.reset();
  EXPECT_TRUE(large.get().ok());
  EXPECT_TRUE(CallStream(third, ToStream(OfMebibytes(1), 1000)).status.ok());
  ExpectNothingHeld();
}

TEST_F(SmallMessages, WhoWaitsForRoomThatItHoldsItselfIsPassed) {
  std::vector<std::unique_ptr<Holder>> holders;
  for (int i = 0; i < 2; ++i) {
    holders.push_back(
        std::make_unique<Holder>(server_, server_.channel(), OfMebibytes(20)));
  }
  auto third = std::async(std::launch::async, [&] {
    return CallStream(server_.channel(), ToStream(OfMebibytes(20), 1000))
        .status;
  });
  absl::SleepFor(absl::Milliseconds(200));  // It stands in line.
  const grpc::Status other =
      CallStream(server_.unix_channel(), ToStream(OfMebibytes(20), 1000),
                 absl::Seconds(20))
          .status;
  EXPECT_TRUE(other.ok()) << other.error_message();
  holders.clear();
  EXPECT_TRUE(third.get().ok());
}

// As others' weights do, which no call that ends gives back.
TEST_F(SmallMessages, WhoWaitsForTensorsThatStayIsPassed) {
  const v1::TensorInfo weights = Create(v1::DATA_TYPE_F32, 1024, 6 * 1024);
  auto large = std::async(std::launch::async, [&] {
    return CallStream(server_.unix_channel(), ToStream(OfMebibytes(44), 1000))
        .status;
  });
  engine::TensorStore& tensors = server_.engine().tensors();
  ASSERT_TRUE(Eventually([&] { return tensors.refused() > 0; }));
  const grpc::Status other =
      CallStream(testing::Connect(server_.address()),
                 ToStream(OfMebibytes(1), 1000), absl::Seconds(20))
          .status;
  EXPECT_TRUE(other.ok()) << other.error_message();
  // Its turn comes once they are gone.
  EXPECT_TRUE(tensors.Delete(weights.handle()).ok());
  const grpc::Status late = large.get();
  EXPECT_TRUE(late.ok()) << late.error_message();
}

TEST_F(SmallMessages, WhoNeedsNoRoomWaitsForNone) {
  v1::MatmulHeader header = OnesTimesTwos(64, 64, 64).header();
  header.mutable_a()->set_tensor(Create(v1::DATA_TYPE_BF16, 64, 64).handle());
  header.mutable_b()->set_tensor(Create(v1::DATA_TYPE_BF16, 64, 64).handle());
  header.mutable_d()->set_tensor(Create(v1::DATA_TYPE_F32, 64, 64).handle());
  // Less than the client has, as a policy may have come to say.
  engine::TensorStore& tensors = server_.engine().tensors();
  tensors.SetGrants({{tensors.List()[0]->identity().owner, {.max_bytes = 1}}});
  const grpc::Status status =
      CallStream(server_.channel(), {StreamHeader(header)}, absl::Seconds(20))
          .status;
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(SmallMessages, WhoHoldsTooMuchIsPassedWhereTheDeviceIsFullToo) {
  Holder holder(server_, server_.channel(), OfMebibytes(40));
  auto more = std::async(std::launch::async, [&] {
    return CallStream(server_.channel(), ToStream(OfMebibytes(30), 1000),
                      absl::Seconds(10))
        .status;
  });
  absl::SleepFor(absl::Milliseconds(200));  // It stands in line.
  const grpc::Status other =
      CallStream(server_.unix_channel(), ToStream(OfMebibytes(20), 1000),
                 absl::Seconds(5))
          .status;
  EXPECT_TRUE(other.ok()) << other.error_message();
  EXPECT_EQ(more.get().error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_EQ(server_.engine().tensors().refused(), 1) << "of one request";
}

// A request of nearly 1 MiB, of 2 that there are, and a result of 36 MiB.
v1::SequenceRequest LargeSequence() {
  const v1::MatmulRequest product = RandomProduct(8192, 1152, 54);
  v1::SequenceRequest request;
  for (const auto& [name, data] :
       {std::pair("a", product.a()), std::pair("b", product.b())}) {
    v1::SequenceOperand& operand = *request.add_operands();
    operand.set_name(name);
    operand.set_data(data);
  }
  v1::MatmulHeader& step = *request.add_steps();
  *step.mutable_problem() = product.header().problem();
  step.mutable_a()->set_name("a");
  step.mutable_b()->set_name("b");
  step.mutable_d()->set_name("d");
  return request;
}

// Sequences hold their requests while they wait for what a stream has, which
// waits for what they hold.
TEST_F(SmallMessages, SequencesWithoutRoomDoNotHoldUpAStreamThatHasSome) {
  const auto announce = [](grpc::ClientContext& context, size_t bytes) {
    context.AddMetadata("gemmd-message-bytes", std::to_string(bytes));
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(30));
  };
  const std::vector<Stream> messages =
      ToStream(RandomProduct(7680, 1024, 54), 200'000);  // D of 30 MiB.
  grpc::ClientContext context;
  announce(context, 200'100);
  const auto stub = v1::MatmulService::NewStub(server_.channel());
  const auto stream = stub->MatmulStream(&context);
  ASSERT_TRUE(stream->Write(messages[0]));
  ASSERT_TRUE(
      Eventually([&] { return server_.engine().tensors().bytes() > 0; }));

  const v1::SequenceRequest request = LargeSequence();
  std::vector<std::future<grpc::Status>> sequences;
  for (int i = 0; i < 2; ++i) {
    sequences.push_back(std::async(std::launch::async, [&] {
      grpc::ClientContext context;
      announce(context, request.ByteSizeLong());
      v1::SequenceResponse response;
      return v1::MatmulService::NewStub(testing::Connect(server_.address()))
          ->Sequence(&context, request, &response);
    }));
  }
  absl::SleepFor(absl::Milliseconds(500));  // One has room for its request.
  for (size_t i = 1; i < messages.size(); ++i) {
    ASSERT_TRUE(stream->Write(messages[i]));
  }
  stream->WritesDone();
  v1::MatmulStreamResponse response;
  while (stream->Read(&response)) {
  }
  const grpc::Status streamed = stream->Finish();
  EXPECT_TRUE(streamed.ok()) << streamed.error_message();
  for (auto& sequence : sequences) {
    const grpc::Status status = sequence.get();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  ExpectNothingHeld();
}

}  // namespace
}  // namespace gemmd
