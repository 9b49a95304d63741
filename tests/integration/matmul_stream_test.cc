// Streamed products through a real server, beside the same ones in one message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "absl/time/clock.h"
#include "tests/integration/matmul_stream_fixture.h"
#include "tests/integration/raw_call.h"
#include "tests/service/gate.h"

namespace gemmd {
namespace {

using testing::BatchOfThree;
using testing::CallStream;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::kMiB;
using testing::MatmulStreamTest;
using testing::OnesTimesTwos;
using testing::Padded;
using testing::RandomProduct;
using testing::Stream;
using testing::StreamAnswer;
using testing::StreamChunk;
using testing::StreamHeader;
using testing::TestServer;
using testing::ToStream;
using testing::WithAllSteps;

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
                "a.inline.batch_stride is 19; allowed in a stream, where they "
                "come one after the other: from 20, of a and b also 0");
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

TEST_F(MatmulStreamTest, OneResultMayStayAndTheOtherReturn) {
  const v1::TensorInfo kept = Create(v1::DATA_TYPE_F32, 3, 4);
  const int64_t held = server_.engine().tensors().bytes();
  const v1::MatmulRequest request = WithAllSteps(3, 4, 5);
  v1::MatmulResponse unary;
  ASSERT_TRUE(CallUnary(request, &unary).ok());
  v1::MatmulRequest keeps = request;
  keeps.mutable_header()->mutable_auxiliary()->set_tensor(kept.handle());
  StreamAnswer answer = CallStream(server_.channel(), ToStream(keeps, 7));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.response.d(), unary.d());
  EXPECT_EQ(answer.response.auxiliary(), "");
  const v1::Paths& paths = answer.response.execution().paths();
  EXPECT_EQ(paths.d(), v1::PATH_STREAM);
  EXPECT_EQ(paths.auxiliary(), v1::PATH_TENSOR);
  ExpectNothingHeld(held);

  keeps.mutable_header()->mutable_d()->set_tensor(kept.handle());
  keeps.mutable_header()->clear_auxiliary();
  answer = CallStream(server_.channel(), ToStream(keeps, 7));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.response.d(), "");
  EXPECT_EQ(answer.response.auxiliary(), unary.auxiliary());
  EXPECT_EQ(answer.response.execution().paths().auxiliary(), v1::PATH_STREAM);
  ExpectNothingHeld(held);
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
                "chunk of a, which is a tensor, in a region or empty; allowed: "
                "chunks of b");
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
  ExpectRefused(ToStream(request, 100), "the elements of A, is 4.61168e+18;");
  problem.set_m(1 << 27);
  problem.set_k(1 << 29);
  ExpectRefused(ToStream(request, 100), "a has about 1.44",
                grpc::RESOURCE_EXHAUSTED);
  problem.set_k(0);
  problem.set_n(2147483392);
  ExpectRefused(ToStream(request, 100), " * ceil(problem.n / 8) is 5629");
  problem.set_n(4096);
  ExpectRefused(ToStream(request, 100), "d has about 2.199",
                grpc::RESOURCE_EXHAUSTED);
}

TEST_F(MatmulStreamTest, ChunksHaveALimitOfTheirOwn) {
  const v1::MatmulRequest request = OnesTimesTwos(1, 1, 2200000);
  ExpectRefused(ToStream(request, 4400000), "allowed: 4194368",
                grpc::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(
      CallStream(server_.channel(), ToStream(request, 4 * kMiB)).status.ok());
}

TEST_F(MatmulStreamTest, IsOneUseOfItsKernel) {
  const std::vector<Stream> messages = ToStream(OnesTimesTwos(2, 3, 4), 1000);
  ASSERT_TRUE(CallStream(server_.channel(), messages).status.ok());
  const int64_t hits = server_.engine().kernels(0).hits();
  ASSERT_TRUE(CallStream(server_.channel(), messages).status.ok());
  EXPECT_EQ(server_.engine().kernels(0).hits(), hits + 1);
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
