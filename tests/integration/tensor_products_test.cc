// Products of resident tensors, and into them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/tensors_fixture.h"
#include "tests/service/matrix.h"

namespace gemmd {
namespace {

using jit::DataType;
using testing::Get;
using ::testing::HasSubstr;
using testing::OnesTimesTwos;
using testing::TensorsTest;

TEST_F(TensorsTest, MultiplyAndAccumulateInPlace) {
  v1::MatmulRequest request = OnesTimesTwos(4, 6, 5);
  v1::MatmulHeader& header = *request.mutable_header();
  const std::string d = CreateF32(4, 6);
  const std::string a = Create(v1::DATA_TYPE_BF16, 4, 5);
  ASSERT_TRUE(UploadAll(a, request.a(), 7).ok());
  header.mutable_a()->set_tensor(a);
  request.clear_a();
  header.mutable_c()->set_tensor(d);
  header.mutable_d()->set_tensor(d);
  header.mutable_problem()->set_beta(1);
  auto stub = v1::MatmulService::NewStub(server_.channel());
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    v1::MatmulResponse response;
    const grpc::Status status = stub->Matmul(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.d(), "");
  }
  const std::string bytes = Download(d);
  for (int i = 0; i < 24; ++i) {
    ASSERT_EQ(Get(DataType::kF32, bytes.data(), i), 30);
  }
  // D may not be A or B.
  header.mutable_problem()->set_d_type(v1::DATA_TYPE_BF16);
  header.mutable_problem()->set_m(4);
  header.mutable_problem()->set_n(5);
  header.mutable_problem()->set_k(5);
  header.mutable_problem()->set_beta(0);
  request.set_b(std::string(50, '\0'));
  header.mutable_d()->set_tensor(header.a().tensor());
  grpc::ClientContext context;
  v1::MatmulResponse response;
  const grpc::Status status = stub->Matmul(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("d.tensor"));
}

// D = A B + C with A and C given as tensors that hold their transposes.
TEST_F(TensorsTest, StandForTheirTransposesOnRequest) {
  v1::MatmulRequest request = OnesTimesTwos(2, 3, 2);
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_problem()->set_a_order(v1::ORDER_COLUMN_MAJOR);
  header.mutable_problem()->set_d_order(v1::ORDER_COLUMN_MAJOR);
  header.mutable_problem()->set_beta(1);
  const std::string a = Create(v1::DATA_TYPE_BF16, 2, 2);
  // Rows of A^T: 1 2, 4 8.
  ASSERT_TRUE(UploadAll(a, {"\x80\x3f\x00\x40\x80\x40\x00\x41", 8}, 2).ok());
  request.clear_a();
  header.mutable_a()->set_tensor(a);
  header.mutable_c()->set_tensor(CreateF32(3, 2));
  auto stub = v1::MatmulService::NewStub(server_.channel());
  const auto multiply = [&](v1::MatmulResponse& response) {
    grpc::ClientContext context;
    return stub->Matmul(&context, request, &response);
  };
  v1::MatmulResponse response;
  // A square tensor of the other order is not taken for its transpose.
  EXPECT_EQ(multiply(response).error_code(), grpc::INVALID_ARGUMENT);
  header.mutable_a()->set_transposed(true);
  header.mutable_c()->set_transposed(true);
  const grpc::Status status = multiply(response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  // Rows of A: 1 4 and 2 8; B is all twos; D is column-major.
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(Get(DataType::kF32, response.d().data(), i), i % 2 ? 20 : 10);
  }
  header.mutable_a()->mutable_inline_();
  EXPECT_THAT(multiply(response).error_message(), HasSubstr("a.transposed"));
}

TEST_F(TensorsTest, MustFitTheProblem) {
  const std::string handle = CreateF32(3, 5);
  v1::MatmulRequest request = OnesTimesTwos(3, 4, 5);
  request.clear_a();
  request.mutable_header()->mutable_a()->set_tensor(handle);
  auto stub = v1::MatmulService::NewStub(server_.channel());
  grpc::ClientContext context;
  v1::MatmulResponse response;
  const grpc::Status status = stub->Matmul(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "a.tensor is f32 3 x 5 row_major; allowed for this problem: bf16 "
            "3 x 5 row_major");
}

}  // namespace
}  // namespace gemmd
