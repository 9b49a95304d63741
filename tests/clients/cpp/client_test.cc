// The client against services written with protobuf's own messages: what the
// client encodes by hand must parse, what they send must arrive.
#include "clients/cpp/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "clients/cpp/status.h"
#include "tests/clients/cpp/client_fixture.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

TEST_F(ClientTest, RequestHoldsHeaderAndOperands) {
  Product product = SmallProduct();
  product.problem.set_beta(2);
  product.c = Operand::Tensor("c-handle");
  matmul_.Answer("result");
  const auto result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->d, "result");
  EXPECT_EQ(result->execution.device(), "fake");
  EXPECT_EQ(matmul_.last().a(), a_);
  EXPECT_EQ(matmul_.last().b(), b_);
  EXPECT_EQ(matmul_.last().header().problem().n(), 3);
  EXPECT_EQ(matmul_.last().header().b().inline_().leading_dimension(), 5);
  EXPECT_EQ(matmul_.last().header().c().tensor(), "c-handle");
}

TEST_F(ClientTest, KeysThatNoMetadataHasAreRefused) {
  Product product = SmallProduct();
  for (const std::string key : {"aaaaaaaaaaaaaaaa\n", "with a space in it",
                                "aaaaaaaaaaaaaaa\xc3\xa4"}) {
    product.idempotency_key = key;
    for (const uint64_t stream_bytes : {uint64_t{1} << 20, uint64_t{0}}) {
      product.stream_bytes = stream_bytes;
      const absl::Status refused = client_->Matmul(product).status();
      EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
      EXPECT_THAT(refused.message(), HasSubstr("ASCII characters without"));
    }
    const Sequence sequence = {.steps = {product}, .idempotency_key = key};
    EXPECT_TRUE(absl::IsInvalidArgument(client_->Run(sequence).status()));
  }
  EXPECT_EQ(matmul_.calls(), 0);
}

TEST_F(ClientTest, WhatIsMeantForThisMachinePassesByNoProxy) {
  setenv("http_proxy", "http://127.0.0.1:9", 1);  // Nobody listens there.
  const auto client = client_->Another();
  unsetenv("http_proxy");
  EXPECT_TRUE(client.ok()) << client.status();
}

TEST(StatusTest, ADaemonThatEndsCancelsNobody) {
  EXPECT_EQ(ToStatus({grpc::CANCELLED, "CANCELLED"}),
            absl::UnavailableError("the daemon is shutting down"));
  EXPECT_EQ(ToStatus({grpc::CANCELLED, "the client has gone"}),
            absl::CancelledError("the client has gone"));
}

TEST_F(ClientTest, WhatTheDaemonHadNoRoomForIsTriedAgainWhenItSaysSo) {
  matmul_.Refuse(2, "20");
  matmul_.Answer("result");
  const absl::Time begin = absl::Now();
  const auto result = client_->Matmul(SmallProduct());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->d, "result");
  EXPECT_EQ(matmul_.calls(), 3);
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(39)) << "two clocks";
  EXPECT_EQ(matmul_.last().a(), a_);
  EXPECT_EQ(matmul_.last().b(), b_);
}

TEST_F(ClientTest, WhatWouldFailAgainIsNotTriedAgain) {
  matmul_.Refuse(1, "-1");
  const auto refused = client_->Matmul(SmallProduct());
  EXPECT_EQ(refused.status(),
            absl::ResourceExhaustedError("the queue is full"));
  EXPECT_EQ(matmul_.calls(), 1);
}

TEST_F(ClientTest, TriesAreBoundedInNumberAndTime) {
  matmul_.Refuse(100, "1");
  EXPECT_TRUE(
      absl::IsResourceExhausted(client_->Matmul(SmallProduct()).status()));
  EXPECT_EQ(matmul_.calls(), 5);
  matmul_.Refuse(1, "60000");
  Product hurried = SmallProduct();
  hurried.timeout = absl::Milliseconds(200);
  const absl::Time begin = absl::Now();
  EXPECT_FALSE(client_->Matmul(hurried).ok());
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20));
}

TEST_F(ClientTest, LargeMessagesAreNotKeptForAnotherTry) {
  Product product = SmallProduct();
  const std::string large(1 << 20, 'x');
  product.a.bytes = large;
  matmul_.Refuse(1, "10");
  EXPECT_TRUE(absl::IsResourceExhausted(client_->Matmul(product).status()));
  EXPECT_EQ(matmul_.calls(), 1);
  EXPECT_TRUE(client_->Matmul(product).ok());
}

// So that the daemon makes room before it reads.
TEST_F(ClientTest, LargeMessagesAreAnnounced) {
  ASSERT_TRUE(client_->Matmul(SmallProduct()).ok());
  EXPECT_EQ(matmul_.announced(), 0);
  Product product = SmallProduct();
  const std::string large(100'000, 'x');
  product.a.bytes = large;
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.announced(),
            static_cast<int64_t>(matmul_.last().ByteSizeLong()));
  ASSERT_TRUE(client_->MatmulGrouped({product, product}).ok());
  EXPECT_EQ(matmul_.announced(),
            static_cast<int64_t>(matmul_.last_groups().ByteSizeLong()));
}

// Made again, it has to be the same.
TEST_F(ClientTest, WhatHasAKeyGoesByOneConnection) {
  Product product = SmallProduct();
  const std::string large(2 << 20, 'x');
  product.a.bytes = large;
  product.striping = Striping{.connections = 2, .least_bytes = 0};
  product.idempotency_key = "0123456789abcdef";
  const absl::Status status = client_->Matmul(product).status();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(matmul_.last().a() == large);
}

TEST_F(ClientTest, AnOperandSaysHowABatchLies) {
  Product product = SmallProduct();
  product.problem.set_batch(7);
  product.problem.set_a_type(v1::DATA_TYPE_E4M3);
  product.problem.set_b_type(v1::DATA_TYPE_E5M2);
  product.problem.set_accumulator(v1::ACCUMULATOR_F16);
  product.b.batch_stride = 0;
  ASSERT_TRUE(client_->Matmul(product).ok());
  const v1::MatmulHeader header = matmul_.last().header();
  EXPECT_EQ(header.problem().SerializeAsString(),
            product.problem.SerializeAsString());
  EXPECT_FALSE(header.a().inline_().has_batch_stride());
  EXPECT_TRUE(header.b().inline_().has_batch_stride());
  EXPECT_EQ(header.b().inline_().batch_stride(), 0);
}

TEST_F(ClientTest, GroupsTravelInOneCall) {
  std::vector<Product> products(5, SmallProduct());
  for (int i = 0; i < 5; ++i) products[i].problem.set_m(10 * i);
  products[0].a.bytes = {};
  products[2].problem.mutable_epilogue()->set_amax(true);
  std::string buffer(40 * 3, '\0');
  products[4].d =
      Destination::Bytes(absl::MakeSpan(buffer.data(), buffer.size()));
  const auto results = client_->MatmulGrouped(products);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 5u);
  EXPECT_EQ((*results)[0].d, "");
  EXPECT_EQ((*results)[3].d, std::string(30 * 3, '3'));
  EXPECT_EQ((*results)[2].amax, 2.0f);
  EXPECT_EQ((*results)[3].amax, std::nullopt);
  EXPECT_EQ((*results)[1].execution.device(), "fake");
  EXPECT_EQ(buffer, std::string(40 * 3, '4'));
  EXPECT_EQ(matmul_.last_groups().groups(0).a(), "");
  EXPECT_EQ(matmul_.last_groups().groups(1).a(), a_);
  EXPECT_EQ(matmul_.last_groups().groups(4).b(), b_);

  EXPECT_TRUE(client_->MatmulGrouped({})->empty());
  for (int missing : {1, 5, -1}) {
    matmul_.LeaveOut(std::max(missing, 0));
    if (missing < 0) products.pop_back();
    const auto few = client_->MatmulGrouped(products);
    EXPECT_EQ(few.ok(), missing < 0) << few.status();
  }
}

TEST_F(ClientTest, CIsLeftOutWhenBetaIsZero) {
  Product product = SmallProduct();
  product.c = Operand::Bytes(a_);
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_FALSE(matmul_.last().header().has_c());
  EXPECT_EQ(matmul_.last().c(), "");
}

TEST_F(ClientTest, ValuesOfTheEpilogueAreSentAsItAsksForThem) {
  Product product = SmallProduct();
  const std::string bias(8, 'v'), rows(12, 'r'), one(4, '1');
  v1::Epilogue& epilogue = *product.problem.mutable_epilogue();
  epilogue.set_bias(v1::EXTENT_ROW);
  epilogue.set_b_scale(v1::EXTENT_COLUMN);
  epilogue.set_d_scale(true);
  product.bias = Operand::Bytes(bias);
  product.a_scale = Operand::Bytes(bias);  // Nobody asks for it.
  product.b_scale = Operand::Bytes(rows);
  product.d_scale = Operand::Tensor("scale");
  const auto result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  const v1::MatmulRequest sent = matmul_.last();
  EXPECT_EQ(sent.bias(), bias);
  EXPECT_TRUE(sent.header().bias().has_inline_());
  EXPECT_EQ(sent.a_scale(), "");
  EXPECT_FALSE(sent.header().has_a_scale());
  EXPECT_EQ(sent.b_scale(), rows);
  EXPECT_EQ(sent.d_scale(), "");
  EXPECT_EQ(sent.header().d_scale().tensor(), "scale");
  EXPECT_FALSE(sent.header().has_auxiliary());
  EXPECT_EQ(sent.a(), a_);
  EXPECT_EQ(sent.b(), b_);
}

TEST_F(ClientTest, SecondResultsComeBack) {
  Product product = SmallProduct();
  product.problem.set_d_order(v1::ORDER_COLUMN_MAJOR);
  product.problem.mutable_epilogue()->set_auxiliary(true);
  product.problem.mutable_epilogue()->set_amax(true);
  matmul_.Answer("result", "before", 2.5f);
  auto result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->d, "result");
  EXPECT_EQ(result->auxiliary, "before");
  EXPECT_EQ(result->amax, 2.5f);
  EXPECT_EQ(matmul_.last().header().auxiliary().inline_().order(),
            v1::ORDER_COLUMN_MAJOR);

  std::string buffer(6, '\0');
  product.auxiliary = Destination::Bytes(absl::MakeSpan(&buffer[0], 6));
  result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(buffer, "before");
  EXPECT_EQ(result->d, "result");
  for (const char* wrong : {"short", ""}) {
    matmul_.Answer("result", wrong, 2.5f);
    const absl::Status status = client_->Matmul(product).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(status.message(), HasSubstr("auxiliary"));
  }
  matmul_.Answer("result", "before");
  EXPECT_THAT(client_->Matmul(product).status().message(), HasSubstr("amax"));
  product.auxiliary = Destination::Tensor("kept");
  matmul_.Answer("result", "", 2.5f);
  result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->auxiliary, "");
  EXPECT_EQ(matmul_.last().header().auxiliary().tensor(), "kept");
  matmul_.Answer("result", "before");
  product.problem.clear_epilogue();  // Nothing more is expected then.
  result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->amax, std::nullopt);
}

TEST_F(ClientTest, ResultFillsTheCallersBuffer) {
  Product product = SmallProduct();
  const std::string answer(10 << 20, 'r');
  matmul_.Answer(answer);
  std::string d(answer.size(), '\0');
  product.d = Destination::Bytes(absl::MakeSpan(d.data(), d.size()));
  const auto result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(d, answer);
  EXPECT_TRUE(result->d.empty());
}

TEST_F(ClientTest, ResultOfAnotherSizeIsAnError) {
  Product product = SmallProduct();
  std::string d(12, '\0');
  product.d = Destination::Bytes(absl::MakeSpan(d.data(), d.size()));
  for (const char* wrong : {"short", "far too long", ""}) {
    matmul_.Answer(std::string(wrong) + (wrong[0] == 'f' ? "!" : ""));
    EXPECT_EQ(client_->Matmul(product).status().code(),
              absl::StatusCode::kInternal);
  }
  // Without a buffer it has those of the problem.
  product.d = {};
  for (const char* wrong : {"short", "too long", ""}) {
    matmul_.Answer(wrong);
    const absl::Status status = client_->Matmul(product).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << wrong;
    EXPECT_THAT(status.message(), HasSubstr("D")) << wrong;
  }
  matmul_.Answer("result");
  EXPECT_EQ(client_->Matmul(product)->d, "result");
}

TEST_F(ClientTest, ErrorsKeepCodeAndText) {
  Product product = SmallProduct();
  product.device = "bad";
  EXPECT_EQ(client_->Matmul(product).status(),
            absl::InvalidArgumentError("device is unknown"));
  EXPECT_EQ(client_->DeleteTensor("x"), absl::NotFoundError("already gone"));
  EXPECT_EQ(client_->GetServerInfo().status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(ClientTest, DeadlineEndsACall) {
  Product product = SmallProduct();
  product.device = "slow";
  product.timeout = absl::Milliseconds(50);
  EXPECT_EQ(client_->Matmul(product).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  product.timeout = absl::ZeroDuration();
  EXPECT_EQ(
      client_->MatmulGrouped({product}, absl::Milliseconds(50)).status().code(),
      absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ClientTest, Health) {
  EXPECT_EQ(client_->CheckHealth(), absl::OkStatus());
  server_->GetHealthCheckService()->SetServingStatus(false);
  EXPECT_EQ(client_->CheckHealth().code(), absl::StatusCode::kUnavailable);
}

TEST(ConnectTest, NoDaemonIsUnavailable) {
  Options options;
  options.connect_timeout = absl::Milliseconds(200);
  const auto client = Client::Connect("127.0.0.1:1", options);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(client.status().message(), HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace gemmd::client
