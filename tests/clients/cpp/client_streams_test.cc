// Products that travel in chunks: which do, how they are cut, and that what
// comes back is whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/clients/cpp/client_fixture.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

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
  const auto streams = [&] {
    const int before = matmul_.streams();
    const absl::Status status = client_->Matmul(product).status();
    EXPECT_TRUE(status.ok()) << status;
    return matmul_.streams() > before;
  };
  product.stream_bytes = 58;
  EXPECT_FALSE(streams());
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
  EXPECT_FALSE(streams());
  product.stream_bytes = 51;
  matmul_.Answer("");
  result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(matmul_.streams(), 2);
  EXPECT_EQ(result->d, "");
  // A product that streams do not serve: matrices of A overlap.
  product.problem.set_batch(2);
  product.a.batch_stride = 4;
  EXPECT_FALSE(streams());
  product.a.batch_stride = 8;
  EXPECT_TRUE(streams());
  // Of a sparse operand a stride counts bytes: matrices of more than 6 overlap
  // then, those 6 elements of two bytes apart do not.
  product.a.batch_stride = 6;
  product.problem.set_a_type(v1::DATA_TYPE_BF16);
  EXPECT_TRUE(streams());
  product.problem.set_sparsity(v1::SPARSITY_2_4);
  EXPECT_FALSE(streams());
  // As of quantized weights; plain ones of 4 bits are half as long.
  product.problem.clear_sparsity();
  product.problem.set_a_type(v1::DATA_TYPE_U4);
  product.problem.set_b_type(v1::DATA_TYPE_BF16);
  product.a.batch_stride = 16;
  EXPECT_TRUE(streams());
  product.a.batch_stride = 8;
  EXPECT_FALSE(streams());
  product.problem.mutable_quantization();
  EXPECT_TRUE(streams());
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

TEST_F(ClientTest, NoMessageIsLargerThanTheDaemonTakes) {
  info_.Limit(1 << 20);
  constexpr size_t kLeast = (1 << 20) - (64 << 10);
  Product product = SmallProduct();
  std::string a(kLeast - b_.size() - 6, 'a');  // And 6 of D.
  product.a = Operand::Bytes(a);
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.streams(), 0);
  EXPECT_EQ(client_->UploadTensor("handle", {}, a), absl::OkStatus());
  EXPECT_EQ(info_.asked(), 0);

  a.resize(3 << 20, 'A');
  product.a = Operand::Bytes(a);
  matmul_.Answer("result");
  ASSERT_TRUE(client_->Matmul(product).ok());
  EXPECT_EQ(matmul_.streams(), 1);
  EXPECT_TRUE(matmul_.last().a() == a);
  EXPECT_EQ(matmul_.longest(), kLeast);
  EXPECT_EQ(client_->UploadTensor("handle", {}, a), absl::OkStatus());
  EXPECT_TRUE(tensors_.bytes() == a);
  EXPECT_EQ(tensors_.largest(), kLeast);
  EXPECT_EQ(info_.asked(), 1);
}

class LimitNotToldTest : public ClientTest,
                         public testing::WithParamInterface<grpc::StatusCode> {
};

TEST_P(LimitNotToldTest, WhoRefusesToTellIsAskedOnce) {
  const std::string a(3 << 20, 'a');
  const auto upload = [&] {
    EXPECT_EQ(client_->UploadTensor("handle", {}, a), absl::OkStatus());
  };
  info_.Refuse(grpc::INTERNAL);  // This time.
  upload();
  info_.Refuse(GetParam());
  for (int i = 0; i < 3; ++i) upload();
  EXPECT_EQ(info_.asked(), 2);
}

INSTANTIATE_TEST_SUITE_P(Codes, LimitNotToldTest,
                         testing::Values(grpc::UNIMPLEMENTED,
                                         grpc::PERMISSION_DENIED));

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

}  // namespace
}  // namespace gemmd::client
