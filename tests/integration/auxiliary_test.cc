// Where the second result of a product goes: to tensors, as D.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "tests/integration/test_server.h"
#include "tests/service/matrix.h"

namespace gemmd {
namespace {

using testing::Get;
using ::testing::HasSubstr;
using testing::TestServer;

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(2)));
}

class AuxiliaryTest : public ::testing::Test {
 protected:
  std::string Create(v1::DataType type = v1::DATA_TYPE_BF16, int64_t rows = 8,
                     v1::Order order = v1::ORDER_ROW_MAJOR,
                     const std::string& device = "host") {
    v1::CreateTensorRequest request;
    request.set_dtype(type);
    request.set_rows(rows);
    request.set_columns(8);
    request.set_order(order);
    request.set_device(device);
    grpc::ClientContext context;
    SetDeadline(context);
    v1::TensorInfo info;
    EXPECT_TRUE(tensors_->CreateTensor(&context, request, &info).ok());
    return info.handle();
  }

  std::string Download(const std::string& handle) {
    v1::DownloadTensorRequest request;
    request.set_handle(handle);
    grpc::ClientContext context;
    SetDeadline(context);
    auto stream = tensors_->DownloadTensor(&context, request);
    std::string bytes;
    for (v1::DownloadTensorResponse part; stream->Read(&part);) {
      bytes += part.data();
    }
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return bytes;
  }

  // Of 8 x 8 and bf16: the auxiliary result is -16, and D is 0.
  static v1::MatmulRequest Product() {
    v1::MatmulRequest request = testing::OnesTimesTwos(8, 8, 8);
    v1::Problem& problem = *request.mutable_header()->mutable_problem();
    problem.set_c_type(v1::DATA_TYPE_BF16);
    problem.set_d_type(v1::DATA_TYPE_BF16);
    problem.set_alpha(-1);
    problem.set_activation(v1::ACTIVATION_RELU);
    problem.mutable_epilogue()->set_auxiliary(true);
    return request;
  }

  grpc::Status Multiply(const v1::MatmulRequest& request) {
    grpc::ClientContext context;
    SetDeadline(context);
    return matmul_->Matmul(&context, request, &response_);
  }

  void ExpectRefused(const std::function<void(v1::MatmulHeader&)>& change,
                     const std::string& why,
                     grpc::StatusCode code = grpc::INVALID_ARGUMENT) {
    v1::MatmulRequest request = Product();
    change(*request.mutable_header());
    if (request.header().a().has_tensor()) request.clear_a();
    if (request.header().b().has_tensor()) request.clear_b();
    const grpc::Status status = Multiply(request);
    EXPECT_EQ(status.error_code(), code) << why;
    EXPECT_THAT(status.error_message(), HasSubstr(why));
  }

  static void ExpectAll(const std::string& bytes, float value) {
    ASSERT_EQ(bytes.size(), 128u);
    for (int i = 0; i < 64; ++i) {
      ASSERT_EQ(Get(jit::DataType::kBf16, bytes.data(), i), value) << i;
    }
  }

  TestServer server_{{.devices = 2}};
  const std::unique_ptr<v1::TensorService::Stub> tensors_ =
      v1::TensorService::NewStub(server_.channel());
  const std::unique_ptr<v1::MatmulService::Stub> matmul_ =
      v1::MatmulService::NewStub(server_.channel());
  v1::MatmulResponse response_;
};

TEST_F(AuxiliaryTest, GoesToATensorAsD) {
  const std::string auxiliary = Create();
  v1::MatmulRequest request = Product();
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_auxiliary()->set_tensor(auxiliary);
  ASSERT_TRUE(Multiply(request).ok());
  EXPECT_EQ(response_.auxiliary(), "");
  ExpectAll(response_.d(), 0);
  ExpectAll(Download(auxiliary), -16);
  const v1::Paths& paths = response_.execution().paths();
  EXPECT_EQ(paths.auxiliary(), v1::PATH_TENSOR);
  EXPECT_EQ(paths.d(), v1::PATH_INLINE);

  // Both, and then D alone.
  const std::string d = Create();
  header.mutable_problem()->set_alpha(1);
  header.mutable_d()->set_tensor(d);
  ASSERT_TRUE(Multiply(request).ok());
  EXPECT_EQ(response_.d() + response_.auxiliary(), "");
  ExpectAll(Download(d), 16);
  ExpectAll(Download(auxiliary), 16);
  header.mutable_problem()->set_alpha(-2);
  header.clear_auxiliary();
  ASSERT_TRUE(Multiply(request).ok());
  ExpectAll(response_.auxiliary(), -32);
  EXPECT_EQ(response_.execution().paths().auxiliary(), v1::PATH_INLINE);
  ExpectAll(Download(d), 0);
}

TEST_F(AuxiliaryTest, CMayBeAddedToAndNotBeIt) {
  const std::string c = Create();
  const std::string auxiliary = Create();
  v1::MatmulRequest request = Product();
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_problem()->set_beta(1);
  header.mutable_c()->set_tensor(c);
  header.mutable_d()->set_tensor(c);
  header.mutable_auxiliary()->set_tensor(auxiliary);
  ASSERT_TRUE(Multiply(request).ok());
  ExpectAll(Download(c), 0);
  ExpectAll(Download(auxiliary), -16);
  header.mutable_auxiliary()->set_tensor(c);
  EXPECT_THAT(Multiply(request).error_message(),
              HasSubstr("auxiliary.tensor is also an input"));
}

TEST_F(AuxiliaryTest, HasATensorOfItsOwn) {
  const std::string one = Create();
  const auto with = [&](auto set) {
    return [one, set](v1::MatmulHeader& header) {
      header.mutable_auxiliary()->set_tensor(one);
      (header.*set)()->set_tensor(one);
    };
  };
  ExpectRefused(with(&v1::MatmulHeader::mutable_a),
                "auxiliary.tensor is also an input");
  ExpectRefused(with(&v1::MatmulHeader::mutable_b),
                "auxiliary.tensor is also an input");
  ExpectRefused(with(&v1::MatmulHeader::mutable_d),
                "auxiliary.tensor is also d's");
}

TEST_F(AuxiliaryTest, HasDsTypeShapeOrderAndDevice) {
  const auto to = [](std::string handle) {
    return [handle](v1::MatmulHeader& header) {
      header.mutable_auxiliary()->set_tensor(handle);
    };
  };
  ExpectRefused(to(Create(v1::DATA_TYPE_F16)), "auxiliary.tensor is f16 8 x 8");
  ExpectRefused(to(Create(v1::DATA_TYPE_BF16, 9)),
                "auxiliary.tensor is bf16 9 x 8");
  ExpectRefused(to(Create(v1::DATA_TYPE_BF16, 8, v1::ORDER_COLUMN_MAJOR)),
                "auxiliary.tensor is bf16 8 x 8 column");
  ExpectRefused(to("0"), "auxiliary.tensor: ", grpc::NOT_FOUND);
  const std::string there =
      Create(v1::DATA_TYPE_BF16, 8, v1::ORDER_ROW_MAJOR, "host:1");
  ExpectRefused(
      [&](v1::MatmulHeader& header) {
        header.mutable_d()->set_tensor(Create());
        header.mutable_auxiliary()->set_tensor(there);
      },
      "allowed: results and device memory on one device");
  ExpectRefused(
      [](v1::MatmulHeader& header) {
        header.mutable_auxiliary()->set_name("x");
      },
      "auxiliary.name is given; allowed in steps of a Sequence alone");
  // A product goes where the tensor is.
  v1::MatmulRequest request = Product();
  request.mutable_header()->mutable_auxiliary()->set_tensor(there);
  ASSERT_TRUE(Multiply(request).ok());
  EXPECT_EQ(response_.execution().device(), "host:1");
}

TEST_F(AuxiliaryTest, IsNotLookedAtWhereThereIsNone) {
  v1::MatmulRequest request = Product();
  request.mutable_header()->mutable_problem()->clear_epilogue();
  request.mutable_header()->mutable_auxiliary()->set_tensor("none");
  ASSERT_TRUE(Multiply(request).ok());
  EXPECT_EQ(response_.execution().paths().auxiliary(), v1::PATH_UNSPECIFIED);
}

TEST_F(AuxiliaryTest, OfAGroupMayBeAnothersInput) {
  const std::string first = Create();
  const std::string second = Create();
  v1::MatmulGroupedRequest request;
  const auto add = [&](const std::string& auxiliary) {
    v1::MatmulRequest& group = *request.add_groups();
    group = Product();
    group.mutable_header()->mutable_auxiliary()->set_tensor(auxiliary);
    return &group;
  };
  add(first);
  add(second);
  v1::MatmulGroupedResponse response;
  const auto send = [&] {
    grpc::ClientContext context;
    SetDeadline(context);
    return matmul_->MatmulGrouped(&context, request, &response);
  };
  ASSERT_TRUE(send().ok());
  ExpectAll(Download(first), -16);
  ExpectAll(Download(second), -16);
  EXPECT_EQ(response.groups(1).execution().paths().auxiliary(),
            v1::PATH_TENSOR);
  // One after the other, in some order: -16 * 2 * 8 * -1 whichever it is.
  v1::MatmulRequest& reader = *request.mutable_groups(1);
  reader.mutable_header()->mutable_a()->set_tensor(first);
  reader.clear_a();
  ASSERT_TRUE(send().ok());
  ExpectAll(Download(second), 256);
  ExpectAll(Download(first), -16);
}

}  // namespace
}  // namespace gemmd
