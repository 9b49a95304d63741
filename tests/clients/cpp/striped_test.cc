// Transfers by several connections, to a server in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "clients/cpp/client.h"
#include "tests/integration/eventually.h"
#include "tests/integration/policy_files.h"
#include "tests/integration/test_server.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;
using testing::TestServer;

std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(i * 131 + i / 251);
  }
  return bytes;
}

// Small integers of bf16, so that sums are exact in any order.
std::string SmallIntegers(size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) {
    bytes += std::string("\x80\x3f\x00\x40\x00\x00\x80\xbf", 8)
                 .substr((i * 7 + i / 13) % 4 * 2, 2);
  }
  return bytes;
}

class StripedTest : public ::testing::TestWithParam<bool> {
 protected:
  StripedTest() {
    const std::string target =
        GetParam() ? server_.unix_target() : server_.address();
    Options options;
    options.striping = {.connections = 4, .least_bytes = 0};
    options.timeout = absl::Seconds(60);
    striped_ = Client::Connect(target, options).value();
    options.striping.connections = 1;
    plain_ = Client::Connect(target, options).value();
  }

  v1::TensorInfo Create(v1::CreateTensorRequest request) {
    const auto info = plain_->CreateTensor(request);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.value_or(v1::TensorInfo());
  }
  v1::TensorInfo CreateF32(int64_t rows, int64_t columns) {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_F32);
    request.set_rows(rows);
    request.set_columns(columns);
    return Create(request);
  }
  static absl::Span<char> Span(std::string& bytes) {
    return absl::MakeSpan(bytes.data(), bytes.size());
  }
  static Product Large() {
    Product product;
    product.problem.set_m(700);
    product.problem.set_n(800);
    product.problem.set_k(900);
    for (auto set : {&v1::Problem::set_a_type, &v1::Problem::set_b_type}) {
      (product.problem.*set)(v1::DATA_TYPE_BF16);
    }
    product.problem.set_d_type(v1::DATA_TYPE_F32);
    return product;
  }

  TestServer server_;
  std::unique_ptr<Client> striped_;
  std::unique_ptr<Client> plain_;
};

TEST_P(StripedTest, TensorsGoThereAndBack) {
  v1::CreateTensorRequest request;
  request.set_dtype(v1::DATA_TYPE_BF16);
  request.set_rows(101);
  request.set_columns(4099);
  request.set_count(3);
  request.set_order(v1::ORDER_COLUMN_MAJOR);
  const v1::TensorInfo info = Create(request);
  const int64_t lines = 3 * 4099;
  v1::Layout layout;
  layout.set_order(v1::ORDER_COLUMN_MAJOR);
  const std::string tight = Pattern(lines * 202);
  ASSERT_EQ(striped_->UploadTensor(info.handle(), layout, tight),
            absl::OkStatus());
  EXPECT_EQ(striped_->DescribeTensor(info.handle())->version(), 1)
      << "one upload, and not one for each connection";
  std::string got(tight.size(), '?');
  ASSERT_EQ(striped_->DownloadTensor(info.handle(), layout, Span(got)),
            absl::OkStatus());
  EXPECT_TRUE(got == tight);

  // Padded, and what one connection brings is the same.
  layout.set_leading_dimension(110);
  const std::string padded = Pattern(lines * 220 - 18);
  ASSERT_EQ(striped_->UploadTensor(info.handle(), layout, padded),
            absl::OkStatus());
  got.assign(padded.size(), '?');
  ASSERT_EQ(striped_->DownloadTensor(info.handle(), layout, Span(got)),
            absl::OkStatus());
  std::string want(padded.size(), '?');
  ASSERT_EQ(plain_->DownloadTensor(info.handle(), layout, Span(want)),
            absl::OkStatus());
  EXPECT_TRUE(got == want);
  EXPECT_EQ(got.substr(0, 202), padded.substr(0, 202));
  EXPECT_EQ(got.substr(202, 18), std::string(18, '\0'));
}

TEST_P(StripedTest, ErrorsAreThoseOfOneConnection) {
  const v1::TensorInfo info = CreateF32(100, 100);
  for (const size_t bytes : {39'999, 40'001, 20'000}) {
    EXPECT_EQ(striped_->UploadTensor(info.handle(), {}, Pattern(bytes)),
              plain_->UploadTensor(info.handle(), {}, Pattern(bytes)));
    std::string got(bytes, '\0');
    EXPECT_EQ(striped_->DownloadTensor(info.handle(), {}, Span(got)),
              plain_->DownloadTensor(info.handle(), {}, Span(got)));
  }
  const std::string nobody(32, '0');
  EXPECT_TRUE(
      absl::IsNotFound(striped_->UploadTensor(nobody, {}, Pattern(400))));
}

// Old elements, or new ones, whoever reads and however it goes.
TEST_P(StripedTest, ReadersSeeWholeUploads) {
  const v1::TensorInfo info = CreateF32(64, 1024);
  const std::string a(64 * 4096, 'a'), b(64 * 4096, 'b');
  ASSERT_TRUE(striped_->UploadTensor(info.handle(), {}, a).ok());
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      EXPECT_EQ(striped_->UploadTensor(info.handle(), {}, i % 2 ? a : b),
                absl::OkStatus());
    }
  });
  int whole = 0;
  for (int i = 0; i < 100; ++i) {
    std::string got(a.size(), '?');
    const absl::Status status =
        striped_->DownloadTensor(info.handle(), {}, Span(got));
    if (absl::IsAborted(status)) continue;
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(got == a || got == b);
    ++whole;
  }
  stop = true;
  writer.join();
  std::string got(a.size(), '?');
  EXPECT_TRUE(striped_->DownloadTensor(info.handle(), {}, Span(got)).ok());
}

TEST_P(StripedTest, ProductsAreThoseOfOneMessage) {
  Product product = Large();
  const std::string a = SmallIntegers(700 * 900), b = SmallIntegers(900 * 800);
  product.a = Operand::Bytes(a);
  product.b = Operand::Bytes(b);
  const auto want = plain_->Matmul(product);
  ASSERT_TRUE(want.ok()) << want.status();
  EXPECT_EQ(want->execution.paths().a(), v1::PATH_INLINE);
  const auto got = striped_->Matmul(product);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(got->d == want->d);
  EXPECT_EQ(got->execution.paths().a(), v1::PATH_TENSOR);
  EXPECT_EQ(got->execution.paths().d(), v1::PATH_TENSOR);
  EXPECT_EQ(server_.engine().tensors().count(), 0) << "they are gone";
}

TEST_P(StripedTest, ProductsWithEveryOption) {
  Product product = Large();
  v1::Problem& problem = product.problem;
  problem.set_batch(2);
  problem.set_beta(2);
  problem.set_a_order(v1::ORDER_COLUMN_MAJOR);
  problem.set_d_order(v1::ORDER_COLUMN_MAJOR);
  problem.mutable_epilogue()->set_bias(v1::EXTENT_COLUMN);
  problem.mutable_epilogue()->set_amax(true);
  problem.set_activation(v1::ACTIVATION_RELU);
  const std::string a = SmallIntegers(2 * 900 * 704 - 4);
  const std::string b = SmallIntegers(900 * 800);
  const std::string c(2 * 700 * 800 * 4, '\0');
  const std::string bias(800 * 4, '\0');
  product.a = Operand::Bytes(a, 704);
  product.b = Operand::Bytes(b);
  product.b.batch_stride = 0;
  product.c = Operand::Bytes(c);
  product.bias = Operand::Bytes(bias);
  std::string d((2 * 800 * 710 - 10) * 4, '?');
  product.d = Destination::Bytes(Span(d), 710);
  const auto got = striped_->Matmul(product);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->execution.paths().b(), v1::PATH_TENSOR);
  std::string want(d.size(), '?');
  product.d = Destination::Bytes(Span(want), 710);
  const auto plain = plain_->Matmul(product);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_TRUE(d == want);
  EXPECT_EQ(got->d, "");
  EXPECT_EQ(got->amax, plain->amax);

  // No tensor holds an auxiliary result: it comes as ever.
  problem.mutable_epilogue()->set_auxiliary(true);
  const auto plain_auxiliary = plain_->Matmul(product);
  ASSERT_TRUE(plain_auxiliary.ok()) << plain_auxiliary.status();
  const auto auxiliary = striped_->Matmul(product);
  ASSERT_TRUE(auxiliary.ok()) << auxiliary.status();
  EXPECT_FALSE(auxiliary->auxiliary.empty());
  EXPECT_TRUE(auxiliary->auxiliary == plain_auxiliary->auxiliary);
}

TEST_P(StripedTest, OneMatrixServesAWholeBatch) {
  Product product = Large();
  product.problem.set_batch(2);
  product.problem.set_beta(1);
  const std::string a = SmallIntegers(2 * 700 * 900);
  const std::string b = SmallIntegers(900 * 800);
  const std::string c(700 * 800 * 4, '\x3f');
  product.a = Operand::Bytes(a);
  product.b = Operand::Bytes(b);
  product.b.batch_stride = 0;
  product.c = Operand::Bytes(c);
  product.c.batch_stride = 0;
  const auto expected = plain_->Matmul(product);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto result = striped_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->d, expected->d);
}

TEST_P(StripedTest, WhatIsWrongWithAProductIsSaidAsEver) {
  Product product = Large();
  const std::string a = SmallIntegers(700 * 900), b = SmallIntegers(900 * 800);
  product.a = Operand::Bytes(a);
  product.b = Operand::Bytes(b);
  product.device = "cuda:77";
  EXPECT_EQ(striped_->Matmul(product).status(),
            plain_->Matmul(product).status());
  product.device.clear();
  product.problem.set_a_type(v1::DATA_TYPE_F16);
  EXPECT_EQ(striped_->Matmul(product).status(),
            plain_->Matmul(product).status());
  EXPECT_EQ(server_.engine().tensors().count(), 0);
  // What the daemon made when nobody waited any more goes with the connection.
  product.problem.set_a_type(v1::DATA_TYPE_BF16);
  product.timeout = absl::Nanoseconds(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(striped_->Matmul(product).status()));
}

INSTANTIATE_TEST_SUITE_P(Targets, StripedTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Unix" : "Tcp";
                         });

class ShortOfRoomTest : public ::testing::Test {};

// The tensors of a striped product do not fit twice; a stream needs each once.
TEST_F(ShortOfRoomTest, ProductsTravelInChunks) {
  TestServer::Options options;
  options.limits.max_tensor_bytes = 7 << 20;
  TestServer server(options);
  Options striped;
  striped.striping = {.connections = 3, .least_bytes = 0};
  const auto client = Client::Connect(server.address(), striped).value();
  Product product;
  product.problem.set_m(1024);
  product.problem.set_n(8);
  product.problem.set_k(2048);
  product.problem.set_a_type(v1::DATA_TYPE_BF16);
  product.problem.set_b_type(v1::DATA_TYPE_BF16);
  const std::string a = SmallIntegers(1024 * 2048);  // 4 MiB.
  const std::string b = SmallIntegers(2048 * 8);
  product.a = Operand::Bytes(a);
  product.b = Operand::Bytes(b);
  product.stream_bytes = 0;
  auto result = client->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->execution.paths().a(), v1::PATH_STREAM);
  EXPECT_EQ(server.engine().tensors().bytes(), 0);
}

// Calls are counted by principal, whatever connections they come by.
TEST_F(ShortOfRoomTest, WhoMayHaveFewCallsMovesAllByOne) {
  const testing::PolicyFiles files;
  TestServer::Options options;
  options.identity.policy = files.WritePolicy(
      R"({"name": "alice", "roles": ["compute", "tensors"], "max_calls": 1})");
  options.identity.token_digests =
      files.Write("tokens", testing::PolicyFiles::LineOf("alice"));
  TestServer server(options);
  Options striped;
  striped.security.token_file =
      files.Write("token", testing::PolicyFiles::TokenOf("alice"));
  striped.striping = {.connections = 4, .least_bytes = 0};
  const auto client = Client::Connect(server.unix_target(), striped).value();
  v1::CreateTensorRequest request;
  request.set_dtype(v1::DATA_TYPE_F32);
  request.set_rows(1024);
  request.set_columns(1024);
  const auto info = client->CreateTensor(request);
  ASSERT_TRUE(info.ok()) << info.status();
  const std::string want = Pattern(4 << 20);
  // An earlier call of the client may not be quite gone.
  ASSERT_TRUE(testing::Eventually(
      [&] { return client->UploadTensor(info->handle(), {}, want).ok(); }));
  std::string got(want.size(), '?');
  ASSERT_TRUE(testing::Eventually([&] {
    return client
        ->DownloadTensor(info->handle(), {},
                         absl::MakeSpan(got.data(), got.size()))
        .ok();
  }));
  EXPECT_TRUE(got == want);
}

}  // namespace
}  // namespace gemmd::client
