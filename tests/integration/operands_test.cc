// Products of resident tensors that may not be, and a download that a write
// overtakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>

#include "absl/time/clock.h"
#include "tests/integration/create_tensor.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TestServer;

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(2)));
}

class OperandsTest : public ::testing::Test {
 protected:
  std::string Create(v1::DataType type, int64_t rows, int64_t columns,
                     const std::string& device = "") {
    return testing::CreateTensor(server_.channel(), type, rows, columns, device)
        .handle();
  }

  // D = A * B, each of bf16 and 8 x 8.
  grpc::Status Multiply(const std::string& a, const std::string& b,
                        const std::string& d, const std::string& device = "") {
    v1::MatmulRequest request = testing::OnesTimesTwos(8, 8, 8);
    v1::MatmulHeader& header = *request.mutable_header();
    header.mutable_problem()->set_d_type(v1::DATA_TYPE_BF16);
    header.mutable_a()->set_tensor(a);
    header.mutable_b()->set_tensor(b);
    header.mutable_d()->set_tensor(d);
    header.set_device(device);
    request.clear_a();
    request.clear_b();
    grpc::ClientContext context;
    SetDeadline(context);
    v1::MatmulResponse response;
    return v1::MatmulService::NewStub(server_.channel())
        ->Matmul(&context, request, &response);
  }

  std::string Square(const std::string& device = "") {
    return Create(v1::DATA_TYPE_BF16, 8, 8, device);
  }

  grpc::Status Fill(const std::string& handle, const std::string& bytes) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::TensorInfo info;
    auto upload = tensors_->UploadTensor(&context, &info);
    v1::UploadTensorRequest message;
    message.mutable_header()->set_handle(handle);
    upload->Write(message);
    message.clear_header();
    for (size_t at = 0; at < bytes.size(); at += 1 << 20) {
      message.set_data(bytes.substr(at, 1 << 20));
      if (!upload->Write(message)) break;
    }
    upload->WritesDone();
    return upload->Finish();
  }

  TestServer server_{{.devices = 2}};
  const std::unique_ptr<v1::TensorService::Stub> tensors_ =
      v1::TensorService::NewStub(server_.channel());
};

TEST_F(OperandsTest, DMayNotBeAnInput) {
  const std::string a = Square("host");
  const std::string b = Square("host");
  for (const std::string& d : {a, b}) {
    const grpc::Status status = Multiply(a, b, d);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("d.tensor is also an input"));
  }
  const grpc::Status status = Multiply(a, b, Square("host"));
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(OperandsTest, TensorsThatAreReadMayBeAnywhere) {
  const std::string here = Square("host");
  const std::string there = Square("host:1");
  for (const std::string device : {"host", "host:1"}) {
    EXPECT_TRUE(Multiply(here, there, Square(device)).ok());
    EXPECT_TRUE(Multiply(there, here, Square(device), device).ok());
  }
}

TEST_F(OperandsTest, AProductRunsOnTheDeviceOfWhatItWritesOrNowhere) {
  const std::string a = Square("host:1");
  const std::string b = Square("host:1");
  const grpc::Status status = Multiply(a, b, Square("host:1"), "host");
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("device: a tensor lives on host:1 and not on host; "
                        "allowed: results and device memory on one device"));
  EXPECT_TRUE(Multiply(a, b, Square("host:1"), "host:1").ok());
}

TEST_F(OperandsTest, ADownloadThatAWriteOvertakesIsAborted) {
  // More than a download fetches ahead of a client that does not read.
  constexpr int64_t kRows = 24576;
  constexpr int64_t kColumns = 1024;
  const std::string handle = Create(v1::DATA_TYPE_F32, kRows, kColumns);
  v1::DownloadTensorRequest request;
  request.set_handle(handle);
  grpc::ClientContext context;
  SetDeadline(context);
  auto download = tensors_->DownloadTensor(&context, request);
  v1::DownloadTensorResponse response;
  ASSERT_TRUE(download->Read(&response));
  EXPECT_EQ(response.data(), std::string(response.data().size(), '\0'));
  const grpc::Status filled =
      Fill(handle, std::string(kRows * kColumns * 4, '\1'));
  ASSERT_TRUE(filled.ok()) << filled.error_message();
  // What arrives is all of the old elements, and never all of them.
  int64_t received = response.data().size();
  while (download->Read(&response)) {
    EXPECT_EQ(response.data().find('\1'), std::string::npos);
    received += response.data().size();
  }
  EXPECT_LT(received, kRows * kColumns * 4);
  EXPECT_EQ(download->Finish().error_code(), grpc::ABORTED);
}

}  // namespace
}  // namespace gemmd
