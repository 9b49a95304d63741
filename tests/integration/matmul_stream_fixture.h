// Streamed products, and a server to which a test sends them.
#ifndef GEMMD_TESTS_INTEGRATION_MATMUL_STREAM_FIXTURE_H_
#define GEMMD_TESTS_INTEGRATION_MATMUL_STREAM_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/integration/create_tensor.h"
#include "tests/integration/eventually.h"
#include "tests/integration/stream_call.h"
#include "tests/integration/test_server.h"
#include "tests/service/matrix.h"

namespace gemmd::testing {

using Stream = v1::MatmulStreamRequest;

inline constexpr int64_t kMiB = 1 << 20;

// `count` elements from -3 to 3.
inline std::string Elements(jit::DataType type, int64_t count, unsigned seed) {
  std::string bytes(count * (type == jit::DataType::kF32 ? 4 : 2), '\0');
  std::minstd_rand random(seed);
  for (int64_t i = 0; i < count; ++i) {
    Put(type, static_cast<float>(random() % 7) - 3, bytes.data(), i);
  }
  return bytes;
}

inline v1::MatmulRequest RandomProduct(int64_t m, int64_t n, int64_t k) {
  v1::MatmulRequest request = OnesTimesTwos(m, n, k);
  request.set_a(Elements(jit::DataType::kBf16, m * k, 1));
  request.set_b(Elements(jit::DataType::kBf16, k * n, 2));
  return request;
}

// Every step of the epilogue, with a second and a third result.
inline v1::MatmulRequest WithAllSteps(int64_t m, int64_t n, int64_t k) {
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
inline v1::MatmulRequest BatchOfThree(int64_t m, int64_t n, int64_t k,
                                      int64_t gap) {
  v1::MatmulRequest request = RandomProduct(m, n, k);
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_problem()->set_batch(3);
  header.mutable_a()->mutable_inline_()->set_batch_stride(m * k + gap);
  header.mutable_b()->mutable_inline_()->set_batch_stride(0);
  request.set_a(Elements(jit::DataType::kBf16, 3 * m * k + 2 * gap, 1));
  return request;
}

// Lines of A and C that are further apart than they are wide.
inline v1::MatmulRequest Padded(int64_t m, int64_t n, int64_t k) {
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
    EXPECT_THAT(status.error_message(), ::testing::HasSubstr(says));
    ExpectNothingHeld();
  }

  // A call's end is told before the last of it is gone.
  void ExpectNothingHeld(int64_t bytes = 0) {
    EXPECT_TRUE(Eventually([&] {
      return server_.engine().tensors().bytes() == bytes;
    })) << server_.engine().tensors().bytes();
  }

  v1::TensorInfo Create(v1::DataType type, int64_t rows, int64_t columns) {
    return CreateTensor(server_.channel(), type, rows, columns);
  }

  TestServer server_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_MATMUL_STREAM_FIXTURE_H_
