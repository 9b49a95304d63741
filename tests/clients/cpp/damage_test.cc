// What is damaged on its way, and calls that are made twice: a client of a
// server in this process, with a proxy in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "clients/cpp/client.h"
#include "tests/clients/cpp/damaging_proxy.h"
#include "tests/integration/test_server.h"

namespace gemmd::client {
namespace {

using testing::DamagingProxy;
using ::testing::HasSubstr;
using testing::TestServer;

constexpr int64_t kSide = 256;
constexpr size_t kBytes = kSide * kSide * sizeof(float);

// Ones of f32, in which no 64 bytes are alike, with a field of such.
std::string Ones() {
  std::string bytes;
  for (int64_t i = 0; i < kSide * kSide; ++i) bytes.append("\0\0\x80\x3f", 4);
  return bytes;
}
std::string Marked() {
  std::string bytes = Ones();
  bytes.replace(kBytes / 2, 128, 128, '\x3f');
  return bytes;
}

class DamageTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> Connect(bool checksums, uint64_t stream_bytes) {
    Options options;
    options.checksums = checksums;
    options.stream_bytes = stream_bytes;
    options.striping.connections = 1;
    options.timeout = absl::Seconds(60);
    return Client::Connect(proxy_.address(), options).value();
  }

  // A times the identity: D is A.
  Product Copy() {
    Product product;
    product.problem.set_m(kSide);
    product.problem.set_n(kSide);
    product.problem.set_k(kSide);
    product.problem.set_a_type(v1::DATA_TYPE_F32);
    product.problem.set_b_type(v1::DATA_TYPE_F32);
    product.a = Operand::Bytes(a_);
    product.b = Operand::Bytes(identity_);
    return product;
  }

  static std::string Identity() {
    std::string bytes(kBytes, '\0');
    for (int64_t i = 0; i < kSide; ++i) {
      bytes.replace(static_cast<size_t>(i * (kSide + 1) * 4), 4, "\0\0\x80\x3f",
                    4);
    }
    return bytes;
  }

  v1::TensorInfo Tensor(Client& client) {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_F32);
    request.set_rows(kSide);
    request.set_columns(kSide);
    return client.CreateTensor(request).value();
  }
  int64_t Products() {
    return server_.engine().served(0).counts.all.Read().count();
  }

  TestServer server_;
  DamagingProxy proxy_{server_.address()};
  const std::string a_ = Marked();
  const std::string identity_ = Identity();
};

constexpr uint64_t kMessage = 1 << 30;
constexpr uint64_t kChunks = 0;

TEST_F(DamageTest, IsUnseenWithoutChecksums) {
  for (const uint64_t way : {kMessage, kChunks}) {
    const auto client = Connect(false, way);
    proxy_.Damage(DamagingProxy::kThere, '\x3f');
    const auto result = client->Matmul(Copy());
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(proxy_.damaged(DamagingProxy::kThere));
    EXPECT_NE(result->d, a_);
  }
}

TEST_F(DamageTest, IsDataLossWithThem) {
  for (const uint64_t way : {kMessage, kChunks}) {
    const auto client = Connect(true, way);
    for (const auto direction : {DamagingProxy::kThere, DamagingProxy::kBack}) {
      proxy_.Damage(direction, '\x3f');
      const auto damaged = client->Matmul(Copy());
      EXPECT_TRUE(absl::IsDataLoss(damaged.status())) << damaged.status();
      EXPECT_TRUE(proxy_.damaged(direction));
      const auto whole = client->Matmul(Copy());
      ASSERT_TRUE(whole.ok()) << whole.status();
      EXPECT_EQ(whole->d, a_);
    }
  }
}

TEST_F(DamageTest, OfATensorIsDataLossAndChangesNothing) {
  const auto client = Connect(true, kMessage);
  const std::string handle = Tensor(*client).handle();
  v1::Layout layout;
  layout.set_order(v1::ORDER_ROW_MAJOR);
  const std::string before = Ones();
  ASSERT_TRUE(client->UploadTensor(handle, layout, before).ok());
  proxy_.Damage(DamagingProxy::kThere, '\x3f');
  EXPECT_TRUE(absl::IsDataLoss(client->UploadTensor(handle, layout, a_)));
  std::string fetched(kBytes, '\0');
  const absl::Span<char> to = absl::MakeSpan(fetched.data(), fetched.size());
  ASSERT_TRUE(client->DownloadTensor(handle, layout, to).ok());
  EXPECT_EQ(fetched, before);
  ASSERT_TRUE(client->UploadTensor(handle, layout, a_).ok());
  proxy_.Damage(DamagingProxy::kBack, '\x3f');
  EXPECT_TRUE(absl::IsDataLoss(client->DownloadTensor(handle, layout, to)));
  ASSERT_TRUE(client->DownloadTensor(handle, layout, to).ok());
  EXPECT_EQ(fetched, a_);
}

TEST_F(DamageTest, OfAGroupIsDataLoss) {
  const auto client = Connect(true, kMessage);
  for (const auto direction : {DamagingProxy::kThere, DamagingProxy::kBack}) {
    proxy_.Damage(direction, '\x3f');
    const auto damaged = client->MatmulGrouped({Copy()});
    EXPECT_TRUE(absl::IsDataLoss(damaged.status())) << damaged.status();
    EXPECT_TRUE(proxy_.damaged(direction));
    const auto whole = client->MatmulGrouped({Copy()});
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ((*whole)[0].d, a_);
  }
}

TEST_F(DamageTest, OfASequenceIsDataLoss) {
  const auto client = Connect(true, kMessage);
  const Sequence sequence = {.steps = {Copy()}};
  for (const auto direction : {DamagingProxy::kThere, DamagingProxy::kBack}) {
    proxy_.Damage(direction, '\x3f');
    const auto damaged = client->Run(sequence);
    EXPECT_TRUE(absl::IsDataLoss(damaged.status())) << damaged.status();
    EXPECT_TRUE(proxy_.damaged(direction));
    const auto whole = client->Run(sequence);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->steps[0].d, a_);
  }
}

// Who had DATA_LOSS in the answer does not know whether it was carried out.
TEST_F(DamageTest, AProductWithAKeyIsCarriedOutOnce) {
  const auto client = Connect(true, kMessage);
  Product product = Copy();
  product.d = Destination::Tensor(Tensor(*client).handle());
  product.idempotency_key = "0123456789abcdef";
  const int64_t before = Products();
  for (int i = 0; i < 3; ++i) {
    const auto result = client->Matmul(product);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(Products(), before + 1);
  }
  product.problem.set_alpha(2);
  const absl::Status other = client->Matmul(product).status();
  EXPECT_TRUE(absl::IsInvalidArgument(other));
  EXPECT_THAT(other.message(), HasSubstr("key is that of another request"));
  product.idempotency_key = "fedcba9876543210";
  EXPECT_TRUE(client->Matmul(product).ok());
  EXPECT_EQ(Products(), before + 2);
  const Sequence sequence = {.steps = {product},
                             .idempotency_key = "0011223344556677"};
  EXPECT_TRUE(client->Run(sequence).ok());
  EXPECT_TRUE(client->Run(sequence).ok());
  EXPECT_EQ(Products(), before + 3);
}

}  // namespace
}  // namespace gemmd::client
