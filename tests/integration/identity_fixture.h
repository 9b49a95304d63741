// A server that asks who calls, and clients of its principals.
#ifndef GEMMD_TESTS_INTEGRATION_IDENTITY_FIXTURE_H_
#define GEMMD_TESTS_INTEGRATION_IDENTITY_FIXTURE_H_

#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/policy_files.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/test_server.h"

namespace gemmd::testing {

inline constexpr char kEverything[] =
    R"("roles": ["compute", "tensors", "kernels", "admin"])";

// A principal's connection; "" has no token.
class PrincipalClient {
 public:
  PrincipalClient(const std::string& address, const std::string& name)
      : channel_(Connect(address)) {
    if (!name.empty()) {
      authorization_ = absl::StrCat("Bearer ", PolicyFiles::TokenOf(name));
    }
  }
  PrincipalClient(std::shared_ptr<grpc::Channel> channel,
                  std::string authorization)
      : channel_(std::move(channel)),
        authorization_(std::move(authorization)) {}

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  void Prepare(grpc::ClientContext& context) const {
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    if (!authorization_.empty()) {
      context.AddMetadata("authorization", authorization_);
    }
  }

  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                 const Request&, Response*),
                    std::unique_ptr<Stub> stub, const Request& request,
                    Response* response) const {
    grpc::ClientContext context;
    Prepare(context);
    return (stub.get()->*method)(&context, request, response);
  }

  grpc::Status Multiply(const v1::MatmulRequest& request,
                        v1::MatmulResponse* response = nullptr) const {
    v1::MatmulResponse unused;
    return Call(&v1::MatmulService::Stub::Matmul,
                v1::MatmulService::NewStub(channel_), request,
                response == nullptr ? &unused : response);
  }
  grpc::Status Call(grpc::ClientContext& context,
                    const v1::MatmulRequest& request,
                    v1::MatmulResponse* response) const {
    return v1::MatmulService::NewStub(channel_)->Matmul(&context, request,
                                                        response);
  }
  // `bound`: to the connection.
  grpc::Status Create(int64_t rows, std::string* handle = nullptr,
                      bool bound = false) const {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_F32);
    request.set_rows(rows);
    request.set_columns(64);
    if (bound) {
      request.set_lifetime(v1::CreateTensorRequest::LIFETIME_CONNECTION);
    }
    v1::TensorInfo info;
    const grpc::Status status =
        Call(&v1::TensorService::Stub::CreateTensor,
             v1::TensorService::NewStub(channel_), request, &info);
    if (handle != nullptr) *handle = info.handle();
    return status;
  }
  grpc::Status Describe(const std::string& handle) const {
    v1::DescribeTensorRequest request;
    request.set_handle(handle);
    v1::TensorInfo info;
    return Call(&v1::TensorService::Stub::DescribeTensor,
                v1::TensorService::NewStub(channel_), request, &info);
  }
  grpc::Status Delete(const std::string& handle) const {
    v1::DeleteTensorRequest request;
    request.set_handle(handle);
    v1::DeleteTensorResponse response;
    return Call(&v1::TensorService::Stub::DeleteTensor,
                v1::TensorService::NewStub(channel_), request, &response);
  }
  grpc::Status Upload(const std::string& handle) const {
    grpc::ClientContext context;
    Prepare(context);
    v1::TensorInfo info;
    const auto stub = v1::TensorService::NewStub(channel_);
    const auto stream = stub->UploadTensor(&context, &info);
    v1::UploadTensorRequest request;
    request.mutable_header()->set_handle(handle);
    stream->Write(request);
    stream->WritesDone();
    return stream->Finish();
  }
  grpc::Status Download(const std::string& handle) const {
    grpc::ClientContext context;
    Prepare(context);
    v1::DownloadTensorRequest request;
    request.set_handle(handle);
    const auto stub = v1::TensorService::NewStub(channel_);
    const auto stream = stub->DownloadTensor(&context, request);
    v1::DownloadTensorResponse response;
    while (stream->Read(&response)) {
    }
    return stream->Finish();
  }
  std::set<std::string> Handles() const {
    v1::ListTensorsResponse response;
    const grpc::Status status = Call(&v1::TensorService::Stub::ListTensors,
                                     v1::TensorService::NewStub(channel_),
                                     v1::ListTensorsRequest(), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::set<std::string> handles;
    for (const auto& info : response.tensors()) handles.insert(info.handle());
    return handles;
  }
  v1::Statistics Statistics() const {
    v1::Statistics statistics;
    const grpc::Status status = Call(&v1::ServerService::Stub::GetStatistics,
                                     v1::ServerService::NewStub(channel_),
                                     v1::GetStatisticsRequest(), &statistics);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return statistics;
  }
  v1::ServerInfo Info() const {
    v1::ServerInfo info;
    const grpc::Status status = Call(&v1::ServerService::Stub::GetServerInfo,
                                     v1::ServerService::NewStub(channel_),
                                     v1::GetServerInfoRequest(), &info);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return info;
  }
  // A call of any method without a message.
  grpc::Status Ask(const std::string& method) const {
    grpc::ClientContext context;
    Prepare(context);
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(&context, method, &queue);
    grpc::Status status;
    call->StartCall(nullptr);
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
    call->WritesDone(nullptr);
    queue.Next(&tag, &ok);
    call->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    return status;
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::string authorization_;
};

class IdentityTest : public ::testing::Test {
 protected:
  void Start(const std::string& principals, TestServer::Options options = {}) {
    options.identity.policy = files_.WritePolicy(principals);
    if (tokens_.empty()) {
      for (const char* const name : {"alice", "bob", "ops"}) {
        absl::StrAppend(&tokens_, PolicyFiles::LineOf(name));
      }
    }
    options.identity.token_digests = files_.Write("tokens", tokens_);
    server_ = std::make_unique<TestServer>(std::move(options));
  }
  void StartAliceAndBob(TestServer::Options options = {}) {
    Start(absl::StrCat(R"({"name": "alice", "roles": ["compute", "tensors"]},
                          {"name": "bob", "roles": ["compute", "tensors"]},
                          {"name": "ops", )",
                       kEverything, "}"),
          std::move(options));
  }
  PrincipalClient As(const std::string& name) const {
    return PrincipalClient(server_->address(), name);
  }
  PrincipalClient Showing(const std::string& authorization) const {
    return PrincipalClient(Connect(server_->address()), authorization);
  }

  PolicyFiles files_;
  std::string tokens_;
  std::unique_ptr<TestServer> server_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_IDENTITY_FIXTURE_H_
