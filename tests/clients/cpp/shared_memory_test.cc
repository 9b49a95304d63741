// Products of a client whose operands and results lie in memory that it shares
// with a daemon.
#include "clients/cpp/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "clients/cpp/client.h"
#include "tests/integration/test_server.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;
using gemmd::testing::OnesTimesTwos;
using gemmd::testing::TestServer;

constexpr int64_t kBytes = 1 << 16;

class SharedMemoryTest : public ::testing::Test {
 protected:
  SharedMemoryTest() {
    rpc::Limits limits;
    limits.max_region_bytes = 1 << 20;
    server_.emplace(TestServer::Options{.limits = limits});
    client_ = Connect(1);
    memory_ = client_->Share(kBytes).value();
  }

  std::unique_ptr<Client> Connect(int address) {
    return Client::Connect(server_->server().addresses()[address],
                           {.timeout = absl::Minutes(1)})
        .value();
  }

  // 8 x 8, of operands that are sent.
  Product Sent() {
    Product product;
    product.problem = request_.header().problem();
    product.a = Operand::Bytes(request_.a());
    product.b = Operand::Bytes(request_.b());
    return product;
  }
  // The same, of which A lies in the memory at 100.
  Product Shared() {
    Product product = Sent();
    request_.a().copy(memory_->bytes().data() + 100, request_.a().size());
    product.a = Operand::Shared(*memory_, 100);
    return product;
  }

  const v1::MatmulRequest request_ = OnesTimesTwos(8, 8, 16);
  std::optional<TestServer> server_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<SharedMemory> memory_;
};

TEST_F(SharedMemoryTest, OperandsAndResultsStayWhereTheyAre) {
  const auto sent = client_->Matmul(Sent());
  ASSERT_TRUE(sent.ok()) << sent.status();
  Product product = Shared();
  product.d = Destination::Shared(*memory_, kBytes - sent->d.size());
  product.stream_bytes = 0;  // What is shared goes in no chunks.
  const auto result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->d, "");
  EXPECT_EQ(std::string(memory_->bytes().data() + kBytes - sent->d.size(),
                        sent->d.size()),
            sent->d);
  EXPECT_EQ(client_->GetStatistics()->received_bytes(),
            2 * request_.b().size() + request_.a().size());
}

TEST_F(SharedMemoryTest, LinesMayLieApart) {
  const auto sent = client_->Matmul(Sent());
  Product product = Sent();
  // A with lines of 20 elements, of 2 bytes, of which 16 count.
  for (int i = 0; i < 8; ++i) {
    std::memcpy(memory_->bytes().data() + i * 40, request_.a().data() + i * 32,
                32);
  }
  product.a = Operand::Shared(*memory_, 0, 20);
  std::memset(memory_->bytes().data() + 4096, '.', 4096);
  product.d = Destination::Shared(*memory_, 4096, 9);
  const auto result = client_->Matmul(product);
  ASSERT_TRUE(result.ok()) << result.status();
  const size_t line = sent->d.size() / 8;
  std::string expected(4096, '.');
  for (int i = 0; i < 8; ++i) {
    expected.replace(i * line / 8 * 9, line, sent->d, i * line, line);
  }
  EXPECT_EQ(std::string(memory_->bytes().data() + 4096, 4096), expected);
}

TEST_F(SharedMemoryTest, GroupsShareToo) {
  Product product = Shared();
  product.d = Destination::Shared(*memory_, 8192);
  const auto results = client_->MatmulGrouped({Sent(), product});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[1].d, "");
  EXPECT_EQ(std::string(memory_->bytes().data() + 8192, (*results)[0].d.size()),
            (*results)[0].d);
}

TEST_F(SharedMemoryTest, AnyConnectionOfTheClientUsesIt) {
  const auto other = Connect(0);  // Over TCP.
  const auto result = other->Matmul(Shared());
  EXPECT_TRUE(result.ok()) << result.status();
}

TEST_F(SharedMemoryTest, ThereIsNoneWithoutAUnixSocket) {
  const auto memory = Connect(0)->Share(kBytes);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(memory.status().message()),
              HasSubstr("allowed: unix:/path on this machine"));
}

TEST_F(SharedMemoryTest, ThereIsSoMuch) {
  EXPECT_EQ(client_->Share(1 << 20).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client_->Share(0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(client_->Share(700 << 10).ok());
}

TEST_F(SharedMemoryTest, ItOutlivesTheDaemon) {
  const Product product = Shared();
  server_.reset();
  EXPECT_FALSE(client_->Matmul(product).ok());
  EXPECT_EQ(std::string(memory_->bytes().data() + 100, request_.a().size()),
            request_.a());
}

}  // namespace
}  // namespace gemmd::client
