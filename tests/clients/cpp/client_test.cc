// The client against services written with protobuf's own messages: what the
// client encodes by hand must parse, what they send must arrive.
#include "clients/cpp/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/clients/cpp/fake_services.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterService(&matmul_);
    builder.RegisterService(&tensors_);
    grpc::EnableDefaultHealthCheckService(true);
    server_ = builder.BuildAndStart();
    Options options;
    options.timeout = absl::Seconds(30);
    auto client = Client::Connect("127.0.0.1:" + std::to_string(port), options);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  Product SmallProduct() {
    Product product;
    product.problem.set_m(2);
    product.problem.set_n(3);
    product.problem.set_k(4);
    product.a = Operand::Bytes(a_);
    product.b = Operand::Bytes(b_, 5);
    return product;
  }

  const std::string a_ = std::string(16, 'a');
  const std::string b_ = std::string(36, 'b');
  FakeMatmul matmul_;
  FakeTensors tensors_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Client> client_;
};

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

TEST_F(ClientTest, WhatIsSharedTravelsInNoChunks) {
  Product product = SmallProduct();  // 16 + 36 bytes.
  product.d = {.region = "r", .offset = 64};
  product.stream_bytes = 52;
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.streams(), 0);
  product.stream_bytes = 51;
  matmul_.Answer("");
  const auto result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(matmul_.streams(), 1);
  EXPECT_EQ(matmul_.last().header().d().region().offset(), 64);
  product.b = {.region = "r"};
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.streams(), 1);
}

TEST_F(ClientTest, SizeDecidesWhatTravelsInChunks) {
  Product product = SmallProduct();  // 16 + 36 bytes, and 6 of D.
  product.stream_bytes = 58;
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.streams(), 0);
  product.stream_bytes = 57;
  matmul_.Answer("result");
  auto result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(matmul_.streams(), 1);
  EXPECT_EQ(result->d, "result");
  EXPECT_EQ(result->execution.device(), "fake");
  EXPECT_EQ(matmul_.last().a(), a_);
  EXPECT_EQ(matmul_.last().b(), b_);
  EXPECT_EQ(matmul_.last().header().b().inline_().leading_dimension(), 5);
  // What is a tensor does not count, nor is it awaited.
  product.d = Destination::Tensor("d");
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.streams(), 1);
  product.stream_bytes = 51;
  matmul_.Answer("");
  result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(matmul_.streams(), 2);
  EXPECT_EQ(result->d, "");
  // A product that streams do not serve: matrices of A overlap.
  product.problem.set_batch(2);
  product.a.batch_stride = 4;
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.streams(), 2);
  product.a.batch_stride = 8;
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.streams(), 3);
  // Of a sparse operand a stride counts bytes: matrices of more than 6 overlap
  // then, those 6 elements of two bytes apart do not.
  product.a.batch_stride = 6;
  product.problem.set_a_type(v1::DATA_TYPE_BF16);
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.streams(), 4);
  product.problem.set_sparsity(v1::SPARSITY_2_4);
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.streams(), 4);
  // As of quantized weights; plain ones of 4 bits are half as long.
  product.problem.clear_sparsity();
  product.problem.set_a_type(v1::DATA_TYPE_U4);
  product.problem.set_b_type(v1::DATA_TYPE_BF16);
  product.a.batch_stride = 16;
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.streams(), 5);
  product.a.batch_stride = 8;
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.streams(), 5);
  product.problem.mutable_quantization();
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.streams(), 6);
}

TEST_F(ClientTest, LargeOperandsAreCutIntoChunks) {
  Product product = SmallProduct();
  product.stream_bytes = 0;
  std::string a(5 << 20, '\0');
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<char>(i * 31 >> 7);
  product.a = Operand::Bytes(a);
  product.problem.mutable_epilogue()->set_d_scale(true);
  const std::string scale = "1234";
  product.d_scale = Operand::Bytes(scale);
  matmul_.Answer("result");
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_TRUE(matmul_.last().a() == a);
  EXPECT_EQ(matmul_.last().b(), b_);
  EXPECT_EQ(matmul_.last().d_scale(), "1234");
  EXPECT_EQ(matmul_.longest(), 2u << 20);
}

TEST_F(ClientTest, ResultsOfStreamsAreCounted) {
  Product product = SmallProduct();
  product.stream_bytes = 0;
  std::string d(6, '\0');
  product.d = Destination::Bytes(absl::MakeSpan(d.data(), d.size()));
  product.problem.mutable_epilogue()->set_auxiliary(true);
  product.problem.mutable_epilogue()->set_amax(true);
  matmul_.Answer("result", "before", 2.5f);
  const auto result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(d, "result");
  EXPECT_EQ(result->auxiliary, "before");
  EXPECT_EQ(result->amax, 2.5f);
  struct Wrong {
    const char *d, *auxiliary;
    std::optional<float> amax;
    const char* says;
  };
  for (const Wrong& wrong :
       {Wrong{"resul", "before", 1.0f, "5 of the 6 bytes of D"},
        Wrong{"results", "before", 1.0f, "more than the 6 bytes of D"},
        Wrong{"result", "", 1.0f, "0 of the 6 bytes of the auxiliary result"},
        Wrong{"result", "before", {}, "no amax"}}) {
    matmul_.Answer(wrong.d, wrong.auxiliary, wrong.amax);
    const absl::Status status = client_->Matmul(product).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.says));
  }
  product.device = "bad";  // Told in the middle of the operands.
  std::string a(20 << 20, 'a');
  product.a = Operand::Bytes(a);
  EXPECT_EQ(client_->Matmul(product).status(),
            absl::InvalidArgumentError("device is unknown"));
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
}

TEST_F(ClientTest, TensorsTravelInChunks) {
  v1::CreateTensorRequest request;
  request.set_rows(7);
  const auto info = client_->CreateTensor(request);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->rows(), 7);
  std::string bytes(5 << 20, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  EXPECT_EQ(client_->UploadTensor("handle", {}, bytes), absl::OkStatus());
  EXPECT_EQ(tensors_.bytes(), bytes);
  EXPECT_EQ(tensors_.largest(), size_t{2} << 20);
  std::string back(bytes.size(), '\0');
  EXPECT_EQ(client_->DownloadTensor("handle", {},
                                    absl::MakeSpan(back.data(), back.size())),
            absl::OkStatus());
  EXPECT_EQ(back, bytes);
}

// As a daemon of tomorrow may.
TEST_F(ClientTest, TensorsOfAnUnknownKindAreNoneToWorkWith) {
  v1::TensorInfo info;
  info.set_dtype(v1::DATA_TYPE_F16);
  info.set_rows(2);
  info.set_columns(3);
  tensors_.Tell(info);
  EXPECT_EQ(client_->DescribeTensor("handle")->columns(), 3);
  v1::TensorInfo type = info, rows = info, columns = info, none;
  // Whose bytes, counted in 64 bits, would be none.
  v1::TensorInfo huge = info, many = info;
  huge.set_rows(int64_t{1} << 62);
  huge.set_columns(int64_t{1} << 62);
  many.set_rows(int64_t{1} << 31);
  many.set_columns(int64_t{1} << 1);
  many.set_count(int64_t{1} << 31);
  type.set_dtype(static_cast<v1::DataType>(99));
  rows.set_rows(0);
  columns.set_columns(-3);
  for (const v1::TensorInfo& odd : {type, rows, columns, none, huge, many}) {
    tensors_.Tell(odd);
    EXPECT_EQ(client_->DescribeTensor("handle").status().code(),
              absl::StatusCode::kInternal)
        << odd.ShortDebugString();
  }
}

TEST_F(ClientTest, BadTransfersSayWhy) {
  EXPECT_EQ(client_->UploadTensor("other", {}, std::string(9 << 20, 'x')),
            absl::NotFoundError("no such tensor"));
  tensors_.Hold("12345678");
  std::string back(4, '\0');
  EXPECT_THAT(client_
                  ->DownloadTensor("handle", {},
                                   absl::MakeSpan(back.data(), back.size()))
                  .message(),
              HasSubstr("more bytes"));
  back.resize(12);
  EXPECT_THAT(client_
                  ->DownloadTensor("handle", {},
                                   absl::MakeSpan(back.data(), back.size()))
                  .message(),
              HasSubstr("4 bytes less"));
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
