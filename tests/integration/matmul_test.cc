// Products through a real server, with ordinary protobuf clients.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "service/rpc/convert.h"
#include "tests/integration/test_server.h"
#include "tests/service/matrix.h"

namespace gemmd {
namespace {

using jit::DataType;
using jit::MatrixLayout;
using jit::Order;
using testing::Fill;
using testing::Get;
using testing::Offset;
using testing::OnesTimesTwos;
using testing::TestServer;

class MatmulTest : public ::testing::Test {
 protected:
  grpc::Status Call(const v1::MatmulRequest& request, bool over_unix = false) {
    auto stub = v1::MatmulService::NewStub(over_unix ? server_.unix_channel()
                                                     : server_.channel());
    grpc::ClientContext context;
    return stub->Matmul(&context, request, &response_);
  }

  float D(int64_t index) const {
    return Get(DataType::kF32, response_.d().data(), index);
  }

  TestServer server_;
  v1::MatmulResponse response_;
};

TEST_F(MatmulTest, WorksOverTcpAndOverAUnixSocket) {
  for (const bool over_unix : {false, true}) {
    const grpc::Status status = Call(OnesTimesTwos(3, 5, 7), over_unix);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response_.d().size(), 3 * 5 * 4);
    for (int i = 0; i < 15; ++i) EXPECT_EQ(D(i), 14);
    EXPECT_EQ(response_.execution().device(), "host");
    EXPECT_EQ(response_.execution().cubin_source(),
              over_unix ? v1::CUBIN_SOURCE_LOADED : v1::CUBIN_SOURCE_COMPILED);
    EXPECT_EQ(response_.execution().cubin_key().size(), 64);
    EXPECT_NE(response_.execution().kernel(), "");
    EXPECT_EQ(response_.execution().arithmetic(), v1::SUM_ARITHMETIC_HOPPER);
    EXPECT_EQ(response_.execution().splits(), 1);
  }
}

TEST_F(MatmulTest, MovesManySlicesUnharmed) {
  // 6 MB of operands, whose every element matters.
  const int64_t n = 1000;
  v1::MatmulRequest request = OnesTimesTwos(n, n, n);
  const MatrixLayout layout = {DataType::kBf16, Order::kRowMajor, n, n};
  request.set_a(Fill(layout, n, [](int64_t i, int64_t j) { return i == j; }));
  const auto value = [](int64_t i, int64_t j) {
    return static_cast<float>((i * 7 + j * 3) % 251 - 125);
  };
  request.set_b(Fill(layout, n, value));
  ASSERT_TRUE(Call(request).ok());
  ASSERT_EQ(response_.d().size(), n * n * 4);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) ASSERT_EQ(D(i * n + j), value(i, j));
  }
}

using Layouts = std::tuple<Order, Order, Order, int64_t>;
class MatmulLayoutTest : public MatmulTest,
                         public ::testing::WithParamInterface<Layouts> {};

TEST_P(MatmulLayoutTest, OrdersAndLeadingDimensions) {
  const auto [a_order, b_order, d_order, padding] = GetParam();
  const jit::Problem problem = {.m = 5,
                                .n = 3,
                                .k = 4,
                                .c_type = DataType::kF32,
                                .d_type = DataType::kF32,
                                .a_order = a_order,
                                .b_order = b_order,
                                .d_order = d_order};
  v1::MatmulRequest request = OnesTimesTwos(5, 3, 4);
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_problem()->set_a_order(rpc::ToWire(a_order));
  header.mutable_problem()->set_b_order(rpc::ToWire(b_order));
  header.mutable_problem()->set_d_order(rpc::ToWire(d_order));
  header.mutable_problem()->set_alpha(2);
  header.mutable_problem()->set_beta(-1);
  const auto pitch = [&](const MatrixLayout& layout) {
    return layout.width() + padding;
  };
  header.mutable_a()->mutable_inline_()->set_leading_dimension(
      pitch(problem.a()));
  header.mutable_b()->mutable_inline_()->set_leading_dimension(
      pitch(problem.b()));
  header.mutable_c()->mutable_inline_()->set_leading_dimension(
      pitch(problem.c()));
  header.mutable_d()->mutable_inline_()->set_leading_dimension(
      pitch(problem.d()));
  const auto a = [](int64_t i, int64_t p) { return i * 4.0f + p; };
  const auto b = [](int64_t p, int64_t j) { return p * 3.0f - j; };
  const auto c = [](int64_t i, int64_t j) { return i - 10.0f * j; };
  request.set_a(Fill(problem.a(), pitch(problem.a()), a));
  request.set_b(Fill(problem.b(), pitch(problem.b()), b));
  request.set_c(Fill(problem.c(), pitch(problem.c()), c));
  // The padding of the last line may be absent.
  request.mutable_a()->resize(request.a().size() - 2 * padding);

  const grpc::Status status = Call(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const int64_t pitch_d = pitch(problem.d());
  ASSERT_EQ(response_.d().size(),
            4 * (pitch_d * problem.d().lines() - padding));
  for (int64_t i = 0; i < 5; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < 4; ++p) sum += a(i, p) * b(p, j);
      EXPECT_EQ(D(Offset(problem.d(), pitch_d, i, j)), 2 * sum - c(i, j));
    }
  }
  for (int64_t line = 0; line + 1 < problem.d().lines(); ++line) {
    for (int64_t at = problem.d().width(); at < pitch_d; ++at) {
      EXPECT_EQ(D(line * pitch_d + at), 0) << "padding is zero";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, MatmulLayoutTest,
    ::testing::Combine(::testing::Values(Order::kRowMajor, Order::kColumnMajor),
                       ::testing::Values(Order::kRowMajor, Order::kColumnMajor),
                       ::testing::Values(Order::kRowMajor, Order::kColumnMajor),
                       ::testing::Values(0, 3)));

TEST_F(MatmulTest, EmptyResultsNeedNothing) {
  for (const auto& [m, n] : {std::pair{0, 4}, {4, 0}, {0, 0}}) {
    ASSERT_TRUE(Call(OnesTimesTwos(m, n, 3)).ok());
    EXPECT_EQ(response_.d(), "");
    EXPECT_EQ(response_.execution().cubin_source(),
              v1::CUBIN_SOURCE_UNSPECIFIED);
    EXPECT_EQ(response_.execution().arithmetic(),
              v1::SUM_ARITHMETIC_UNSPECIFIED);
    EXPECT_EQ(response_.execution().splits(), 0);
  }
  EXPECT_EQ(server_.cache().gets(), 0);
}

TEST_F(MatmulTest, NoDepthGivesBetaTimesC) {
  v1::MatmulRequest request = OnesTimesTwos(2, 3, 0);
  ASSERT_TRUE(Call(request).ok());
  ASSERT_EQ(response_.d().size(), 24);
  EXPECT_EQ(D(5), 0);
  request.mutable_header()->mutable_problem()->set_beta(2);
  const MatrixLayout c = {DataType::kF32, Order::kRowMajor, 2, 3};
  request.set_c(Fill(c, 3, [](int64_t i, int64_t j) { return i + 10 * j; }));
  ASSERT_TRUE(Call(request).ok());
  EXPECT_EQ(D(5), 42);
}

TEST_F(MatmulTest, WhatIsNotReadNeedNotBeThere) {
  v1::MatmulRequest request = OnesTimesTwos(2, 3, 0);
  request.mutable_header()->mutable_problem()->set_k(1 << 30);
  request.mutable_header()->mutable_problem()->set_alpha(0);
  // Of beta 0, even an unknown tensor as C is not read.
  request.mutable_header()->mutable_c()->set_tensor("nobody");
  const grpc::Status status = Call(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(D(5), 0);
}

TEST_F(MatmulTest, EveryResponseCarriesItsRequestId) {
  auto stub = v1::MatmulService::NewStub(server_.channel());
  std::string ids[2];
  for (std::string& id : ids) {
    grpc::ClientContext context;
    ASSERT_TRUE(
        stub->Matmul(&context, OnesTimesTwos(1, 1, 1), &response_).ok());
    const auto found =
        context.GetServerTrailingMetadata().find("gemmd-request-id");
    ASSERT_NE(found, context.GetServerTrailingMetadata().end());
    id.assign(found->second.data(), found->second.size());
  }
  EXPECT_NE(ids[0], ids[1]);
}

}  // namespace
}  // namespace gemmd
