// Streamed products through a real server, beside the same ones in one message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/time/clock.h"
#include "tests/integration/eventually.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/stream_call.h"
#include "tests/integration/test_server.h"
#include "tests/service/gate.h"
#include "tests/service/matrix.h"

namespace gemmd {
namespace {

using testing::CallStream;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::OnesTimesTwos;
using testing::StreamAnswer;
using testing::StreamChunk;
using testing::StreamHeader;
using testing::TestServer;
using testing::ToStream;
using Stream = v1::MatmulStreamRequest;

constexpr int64_t kMiB = 1 << 20;

// `count` elements from -3 to 3.
std::string Elements(jit::DataType type, int64_t count, unsigned seed) {
  std::string bytes(count * (type == jit::DataType::kF32 ? 4 : 2), '\0');
  std::minstd_rand random(seed);
  for (int64_t i = 0; i < count; ++i) {
    testing::Put(type, static_cast<float>(random() % 7) - 3, bytes.data(), i);
  }
  return bytes;
}

v1::MatmulRequest RandomProduct(int64_t m, int64_t n, int64_t k) {
  v1::MatmulRequest request = OnesTimesTwos(m, n, k);
  request.set_a(Elements(jit::DataType::kBf16, m * k, 1));
  request.set_b(Elements(jit::DataType::kBf16, k * n, 2));
  return request;
}

// Every step of the epilogue, with a second and a third result.
v1::MatmulRequest WithAllSteps(int64_t m, int64_t n, int64_t k) {
  v1::MatmulRequest request = RandomProduct(m, n, k);
  v1::Problem& problem = *request.mutable_header()->mutable_problem();
  problem.set_alpha(0.5);
  problem.set_beta(2);
  problem.set_activation(v1::ACTIVATION_RELU);
  v1::Epilogue& epilogue = *problem.mutable_epilogue();
  epilogue.set_bias(v1::EXTENT_COLUMN);
  epilogue.set_a_scale(v1::EXTENT_ROW);
  epilogue.set_b_scale(v1::EXTENT_COLUMN);
  epilogue.set_d_scale(true);
  epilogue.set_auxiliary(true);
  epilogue.set_amax(true);
  const auto floats = [](int64_t count, unsigned seed) {
    return Elements(jit::DataType::kF32, count, seed);
  };
  request.set_c(floats(m * n, 3));
  request.set_bias(floats(n, 4));
  request.set_a_scale(floats(m, 5));
  request.set_b_scale(floats(n, 6));
  request.set_d_scale(floats(1, 7));
  return request;
}

// Three products whose matrices of A are `gap` elements apart, and of B one.
v1::MatmulRequest BatchOfThree(int64_t m, int64_t n, int64_t k, int64_t gap) {
  v1::MatmulRequest request = RandomProduct(m, n, k);
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_problem()->set_batch(3);
  header.mutable_a()->mutable_inline_()->set_batch_stride(m * k + gap);
  header.mutable_b()->mutable_inline_()->set_batch_stride(0);
  request.set_a(Elements(jit::DataType::kBf16, 3 * m * k + 2 * gap, 1));
  return request;
}

// Lines of A and C that are further apart than they are wide.
v1::MatmulRequest Padded(int64_t m, int64_t n, int64_t k) {
  v1::MatmulRequest request = WithAllSteps(m, n, k);
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_a()->mutable_inline_()->set_leading_dimension(k + 5);
  header.mutable_c()->mutable_inline_()->set_leading_dimension(n + 1);
  header.mutable_d()->mutable_inline_()->set_leading_dimension(n + 3);
  request.set_a(Elements(jit::DataType::kBf16, m * (k + 5), 1));
  request.set_c(Elements(jit::DataType::kF32, m * (n + 1) - 1, 3));
  return request;
}

class MatmulStreamTest : public ::testing::Test {
 protected:
  MatmulStreamTest() : MatmulStreamTest(TestServer::Options()) {}
  explicit MatmulStreamTest(const TestServer::Options& options)
      : server_(options) {}

  grpc::Status CallUnary(const v1::MatmulRequest& request,
                         v1::MatmulResponse* response) {
    grpc::ClientContext context;
    return v1::MatmulService::NewStub(server_.channel())
        ->Matmul(&context, request, response);
  }

  // What Matmul gives, however the operands are cut.
  void ExpectSame(const v1::MatmulRequest& request,
                  const std::vector<size_t>& chunks) {
    v1::MatmulResponse unary;
    const grpc::Status status = CallUnary(request, &unary);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (const size_t chunk : chunks) {
      const StreamAnswer answer =
          CallStream(server_.channel(), ToStream(request, chunk));
      ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
      EXPECT_EQ(answer.response.d(), unary.d()) << chunk;
      EXPECT_EQ(answer.response.auxiliary(), unary.auxiliary()) << chunk;
      EXPECT_EQ(answer.response.has_amax(), unary.has_amax());
      EXPECT_EQ(answer.response.amax(), unary.amax());
      EXPECT_EQ(answer.response.execution().device(),
                unary.execution().device());
    }
    ExpectNothingHeld();
  }

  void ExpectRefused(const std::vector<Stream>& messages, const char* says,
                     grpc::StatusCode code = grpc::INVALID_ARGUMENT) {
    const grpc::Status status = CallStream(server_.channel(), messages).status;
    EXPECT_EQ(status.error_code(), code)
        << says << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(says));
    ExpectNothingHeld();
  }

  // A call's end is told before the last of it is gone.
  void ExpectNothingHeld(int64_t bytes = 0) {
    EXPECT_TRUE(Eventually([&] {
      return server_.engine().tensors().bytes() == bytes;
    })) << server_.engine().tensors().bytes();
  }

  v1::TensorInfo Create(v1::DataType type, int64_t rows, int64_t columns) {
    v1::CreateTensorRequest request;
    request.set_dtype(type);
    request.set_rows(rows);
    request.set_columns(columns);
    grpc::ClientContext context;
    v1::TensorInfo info;
    const grpc::Status status = v1::TensorService::NewStub(server_.channel())
                                    ->CreateTensor(&context, request, &info);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return info;
  }

  TestServer server_;
};

TEST_F(MatmulStreamTest, GivesWhatOneMessageGives) {
  ExpectSame(RandomProduct(7, 5, 9), {1, 3, 18, 1000});
  ExpectSame(WithAllSteps(7, 5, 9), {1, 7, 1000});
  ExpectSame(Padded(7, 5, 9), {1, 11, 1000});
}

TEST_F(MatmulStreamTest, ServesBatchesWithAndWithoutGaps) {
  for (const int64_t gap : {0, 1, 13, 200}) {
    ExpectSame(BatchOfThree(4, 3, 5, gap), {1, 9, 64, 10000});
  }
  v1::MatmulRequest request = BatchOfThree(4, 3, 5, -1);
  ExpectRefused(ToStream(request, 100),
                "a.inline.batch_stride is 19; allowed in a stream: 0, or from "
                "20");
}

TEST_F(MatmulStreamTest, OperandsOfManyPartsArriveWhole) {
  // 72 MB of A in long lines and of C in short ones, twice a part and more.
  ExpectSame(Padded(400, 7, 90000), {1 << 20, 1234567});
  ExpectSame(BatchOfThree(9, 2, 700001, 31), {1 << 20});
}

TEST_F(MatmulStreamTest, TheEmptyAndTheUnreadNeedNothing) {
  for (auto [m, n, k] :
       {std::tuple(0, 3, 4), {3, 0, 4}, {3, 4, 0}, {0, 0, 0}}) {
    ExpectSame(RandomProduct(m, n, k), {100});
  }
  v1::MatmulRequest request = WithAllSteps(0, 3, 4);
  ExpectSame(request, {100});
  request = RandomProduct(3, 4, 5);
  request.mutable_header()->mutable_problem()->set_alpha(0);
  ExpectSame(request, {10});  // A and B are sent and dropped.
  request = RandomProduct(3, 4, 5);
  request.set_c("anything");  // Beta is 0.
  ExpectSame(request, {5});
}

TEST_F(MatmulStreamTest, TensorsStandForOperandsAndResults) {
  const v1::TensorInfo sum = Create(v1::DATA_TYPE_F32, 3, 4);
  const int64_t held = server_.engine().tensors().bytes();
  v1::MatmulRequest request = OnesTimesTwos(3, 4, 5);
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_problem()->set_beta(1);
  header.mutable_c()->set_tensor(sum.handle());
  header.mutable_d()->set_tensor(sum.handle());
  for (int i = 0; i < 2; ++i) {
    const StreamAnswer answer =
        CallStream(server_.channel(), ToStream(request, 7));
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.response.d(), "");
    EXPECT_EQ(answer.response.execution().device(), "host");
  }
  ExpectNothingHeld(held);
  // And from there: all of 20, by a stream without a chunk.
  request = OnesTimesTwos(3, 4, 0);
  request.mutable_header()->mutable_problem()->set_beta(1);
  request.mutable_header()->mutable_c()->set_tensor(sum.handle());
  const StreamAnswer answer =
      CallStream(server_.channel(), ToStream(request, 7));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.response.d().size(), 48u);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(testing::Get(jit::DataType::kF32, answer.response.d().data(), i),
              20);
  }
}

TEST_F(MatmulStreamTest, WhatComesOutOfOrderIsRefused) {
  const v1::MatmulRequest request = OnesTimesTwos(2, 3, 4);  // A: 16, B: 24.
  const Stream header = StreamHeader(request.header());
  const Stream a = StreamChunk(Stream::OPERAND_A, request.a());
  const Stream b = StreamChunk(Stream::OPERAND_B, request.b());
  const auto some = [](Stream::Operand operand, size_t bytes) {
    return StreamChunk(operand, std::string(bytes, 'x'));
  };
  ExpectRefused({}, "the request message is missing");
  ExpectRefused({a, b}, "header is missing");
  ExpectRefused({Stream()}, "header is missing");
  ExpectRefused({header}, "a has 0 bytes; allowed for its shape: 16");
  ExpectRefused({header, a}, "b has 0 bytes; allowed for its shape: 24");
  ExpectRefused({header, a, header, b}, "header comes again");
  ExpectRefused({header, a, Stream()}, "chunk is missing");
  ExpectRefused({header, b, a},
                "a has 0 bytes; allowed for its shape: 16, and "
                "b has begun");
  ExpectRefused({header, a, b, a},
                "chunk of a after one of b; allowed: chunks of a, b, operand "
                "after operand");
  ExpectRefused({header, some(Stream::OPERAND_A, 15), b},
                "a has 15 bytes; allowed for its shape: 16, and b has begun");
  ExpectRefused({header, some(Stream::OPERAND_A, 17)},
                "a goes beyond the 16 bytes");
  ExpectRefused({header, a, some(Stream::OPERAND_A, 1)},
                "a goes beyond the 16 bytes");
  ExpectRefused({header, a, b, some(Stream::OPERAND_B, 1)},
                "b goes beyond the 24 bytes");
  ExpectRefused({header, a, some(Stream::OPERAND_B, 23)},
                "b has 23 bytes; allowed for its shape: 24");
  ExpectRefused({header, some(Stream::OPERAND_UNSPECIFIED, 5)},
                "chunk.operand is 0; allowed: 1 (a), 2 (b)");
  ExpectRefused({header, some(Stream::Operand(8), 5)}, "chunk.operand is 8");
  v1::MatmulRequest other = request;
  other.mutable_header()->mutable_problem()->set_m(0);
  ExpectRefused({StreamHeader(other.header()), a},
                "chunk of a, which is a tensor or empty; allowed: chunks of b");
  other.mutable_header()->mutable_problem()->set_m(-1);
  ExpectRefused({StreamHeader(other.header()), a, b}, "problem.m is -1");
  other = request;
  other.mutable_header()->mutable_a()->set_transposed(true);
  ExpectRefused({StreamHeader(other.header()), a, b}, "a.transposed is true");
  other = request;
  other.mutable_header()->mutable_b()->set_tensor(std::string(32, 'f'));
  ExpectRefused({StreamHeader(other.header()), a}, "b.tensor: no tensor",
                grpc::NOT_FOUND);
  // And the daemon is well.
  EXPECT_TRUE(CallStream(server_.channel(), {header, a, b}).status.ok());
}

TEST_F(MatmulStreamTest, MalformedMessagesAreRefused) {
  for (const std::string& bytes :
       {std::string("\x0a\x05"
                    "abc",
                    5),
        std::string("\x12\x02\x12\x7f", 4), std::string("\xff\xff\xff", 3)}) {
    const grpc::Status status =
        server_.CallRaw("/gemmd.v1.MatmulService/MatmulStream", bytes);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  }
}

TEST_F(MatmulStreamTest, ACompileThatRanMeanwhileIsThisRequests) {
  const v1::MatmulRequest request = OnesTimesTwos(2, 3, 4);
  auto stub = v1::MatmulService::NewStub(server_.channel());
  grpc::ClientContext context;
  const auto stream = stub->MatmulStream(&context);
  const std::vector<Stream> messages = ToStream(request, 1000);
  ASSERT_TRUE(stream->Write(messages[0]));
  // Before any operand has come.
  ASSERT_TRUE(Eventually([&] { return server_.cache().gets() > 0; }));
  absl::SleepFor(absl::Milliseconds(50));
  ASSERT_TRUE(stream->Write(messages[1]));
  ASSERT_TRUE(stream->Write(messages[2]));
  stream->WritesDone();
  v1::MatmulStreamResponse response;
  while (stream->Read(&response)) continue;
  ASSERT_TRUE(stream->Finish().ok());
  EXPECT_EQ(response.execution().cubin_source(), v1::CUBIN_SOURCE_COMPILED);
  EXPECT_EQ(server_.cache().gets(), 1);
}

TEST_F(MatmulStreamTest, SizesThatCannotBeCountedAreRefused) {
  v1::MatmulRequest request = OnesTimesTwos(0, 0, 0);
  v1::Problem& problem = *request.mutable_header()->mutable_problem();
  problem.set_m(2147483392);
  problem.set_k(2147483392);
  problem.set_n(1);
  ExpectRefused(ToStream(request, 100), "a has about 9.22",
                grpc::RESOURCE_EXHAUSTED);
  problem.set_k(0);
  problem.set_n(2147483392);
  ExpectRefused(ToStream(request, 100), "d has about 1.84",
                grpc::RESOURCE_EXHAUSTED);
  problem.set_batch(2147483392);
  ExpectRefused(ToStream(request, 100), "d has about 3.9",
                grpc::RESOURCE_EXHAUSTED);
}

TEST_F(MatmulStreamTest, ChunksHaveALimitOfTheirOwn) {
  const v1::MatmulRequest request = OnesTimesTwos(1, 1, 2200000);
  ExpectRefused(ToStream(request, 4400000), "allowed: 4194368",
                grpc::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(
      CallStream(server_.channel(), ToStream(request, 4 * kMiB)).status.ok());
}

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
  ExpectRefused(ToStream(request, kMiB + 1), "larger than max",
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
  ASSERT_TRUE(WriteMebibytes(32));
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
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(2)));
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

class Hasty : public MatmulStreamTest {
 protected:
  static TestServer::Options Impatient() {
    TestServer::Options options;
    options.limits.stall_timeout = absl::Milliseconds(500);
    return options;
  }
  Hasty() : MatmulStreamTest(Impatient()) {}
};

TEST_F(Hasty, WhoStopsInTheMiddleIsEnded) {
  const std::vector<Stream> messages = ToStream(OnesTimesTwos(2, 3, 4), 1000);
  grpc::ClientContext context;
  const auto stub = v1::MatmulService::NewStub(server_.channel());
  const auto stream = stub->MatmulStream(&context);
  ASSERT_TRUE(stream->Write(messages[0]));
  ASSERT_TRUE(stream->Write(messages[1]));
  ASSERT_TRUE(
      Eventually([&] { return server_.engine().tensors().bytes() > 0; }));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("--stall-timeout"));
  ExpectNothingHeld();
}

}  // namespace
}  // namespace gemmd
