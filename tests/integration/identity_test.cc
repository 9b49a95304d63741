// Principals: who may call what, and that they see and exhaust nothing of each
// other.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/integration/eventually.h"
#include "tests/integration/policy_files.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::OnesTimesTwos;
using testing::PolicyFiles;
using testing::TestServer;

constexpr char kEverything[] =
    R"("roles": ["compute", "tensors", "kernels", "admin"])";

// A principal's connection; "" has no token.
class Client {
 public:
  Client(const std::string& address, const std::string& name)
      : channel_(testing::Connect(address)) {
    if (!name.empty()) {
      authorization_ = absl::StrCat("Bearer ", PolicyFiles::TokenOf(name));
    }
  }
  Client(std::shared_ptr<grpc::Channel> channel, std::string authorization)
      : channel_(std::move(channel)),
        authorization_(std::move(authorization)) {}

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
  Client As(const std::string& name) const {
    return Client(server_->address(), name);
  }
  Client Showing(const std::string& authorization) const {
    return Client(testing::Connect(server_->address()), authorization);
  }

  PolicyFiles files_;
  std::string tokens_;
  std::unique_ptr<TestServer> server_;
};

// Every method that the API has, by what it needs: a new one without a line
// here fails the test.
const std::map<std::string, std::string>& RolesOfMethods() {
  static const auto& roles = *new std::map<std::string, std::string>({
      {"MatmulService/Matmul", "compute"},
      {"MatmulService/MatmulGrouped", "compute"},
      {"MatmulService/MatmulStream", "compute"},
      {"TensorService/CreateTensor", "tensors"},
      {"TensorService/UploadTensor", "tensors"},
      {"TensorService/DownloadTensor", "tensors"},
      {"TensorService/DescribeTensor", "tensors"},
      {"TensorService/ListTensors", "tensors"},
      {"TensorService/DeleteTensor", "tensors"},
      {"KernelService/PrepareKernels", "kernels"},
      {"KernelService/ListKernels", "kernels"},
      {"KernelService/DescribeKernel", "kernels"},
      {"KernelService/EvictKernel", "admin"},
      {"KernelService/TuneKernels", "admin"},
      {"ServerService/GetServerInfo", ""},
      {"ServerService/GetStatistics", ""},
  });
  return roles;
}

TEST_F(IdentityTest, EveryMethodNeedsItsRoleAndNoOther) {
  Start(R"({"name": "compute", "roles": ["compute"]},
           {"name": "tensors", "roles": ["tensors"]},
           {"name": "kernels", "roles": ["kernels"]},
           {"name": "admin", "roles": ["admin"]},
           {"name": "none"})",
        [&] {
          for (const char* const name :
               {"compute", "tensors", "kernels", "admin", "none"}) {
            absl::StrAppend(&tokens_, PolicyFiles::LineOf(name));
          }
          return TestServer::Options();
        }());
  for (const char* const name :
       {"compute", "tensors", "kernels", "admin", "none"}) {
    const Client client = As(name);
    for (const auto& [method, role] : RolesOfMethods()) {
      const grpc::Status status =
          client.Ask(absl::StrCat("/gemmd.v1.", method));
      if (role.empty() || role == name) {
        EXPECT_NE(status.error_code(), StatusCode::PERMISSION_DENIED)
            << name << " " << method;
        EXPECT_NE(status.error_code(), StatusCode::UNAUTHENTICATED);
        continue;
      }
      EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED)
          << name << " " << method << " " << status.error_message();
      EXPECT_EQ(status.error_message(),
                absl::StrCat("the method needs the role ", role,
                             "; this principal has: ", name));
    }
  }
}

TEST_F(IdentityTest, NoMethodOfTheApiIsLeftOut) {
  std::set<std::string> known;
  for (const auto& [method, role] : RolesOfMethods()) known.insert(method);
  std::set<std::string> served;
  for (const char* const name :
       {"MatmulService", "TensorService", "KernelService", "ServerService"}) {
    const auto* const service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
            absl::StrCat("gemmd.v1.", name));
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i) {
      served.insert(absl::StrCat(name, "/", service->method(i)->name()));
    }
  }
  EXPECT_EQ(known, served);
}

TEST_F(IdentityTest, StrangersAreToldNothingButWhatIsMissing) {
  StartAliceAndBob();
  for (const auto& [method, role] : RolesOfMethods()) {
    const grpc::Status status = As("").Ask(absl::StrCat("/gemmd.v1.", method));
    EXPECT_EQ(status.error_code(), StatusCode::UNAUTHENTICATED) << method;
    EXPECT_THAT(status.error_message(), HasSubstr("credentials are missing"));
  }
  for (const char* const method :
       {"/gemmd.v1.MatmulService/NoSuchMethod",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(As("").Ask(method).error_code(), StatusCode::UNAUTHENTICATED);
    EXPECT_NE(As("bob").Ask(method).error_code(), StatusCode::UNAUTHENTICATED);
  }
}

TEST_F(IdentityTest, HealthIsOpen) {
  StartAliceAndBob();
  std::string response;
  const grpc::Status status =
      server_->CallRaw("/grpc.health.v1.Health/Check", "", &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response, "\x08\x01");
}

TEST_F(IdentityTest, TokensThatAreWrongAreRefusedAndNotRepeated) {
  tokens_ = absl::StrCat(PolicyFiles::LineOf("alice"),
                         PolicyFiles::LineOf("bob", "2020-01-01T00:00:00Z"),
                         PolicyFiles::LineOf("carol"));
  StartAliceAndBob();
  const auto error = [&](const std::string& authorization) {
    const grpc::Status status =
        Showing(authorization).Multiply(OnesTimesTwos(1, 1, 1));
    EXPECT_EQ(status.error_code(), StatusCode::UNAUTHENTICATED);
    EXPECT_THAT(status.error_message(), Not(HasSubstr("token-of")));
    return status.error_message();
  };
  const std::string alice = PolicyFiles::TokenOf("alice");
  EXPECT_EQ(error(absl::StrCat("Bearer ", alice, "9")), "the token is unknown");
  EXPECT_EQ(error(absl::StrCat("Bearer ", alice.substr(0, alice.size() - 1))),
            "the token is unknown");
  EXPECT_EQ(error(absl::StrCat("Bearer ", PolicyFiles::TokenOf("bob"))),
            "the token has expired");
  EXPECT_EQ(error(absl::StrCat("Bearer ", PolicyFiles::TokenOf("carol"))),
            "the token stands for no principal of this daemon");
  EXPECT_THAT(error(absl::StrCat("Basic ", alice)), HasSubstr("malformed"));
  EXPECT_THAT(error(alice), HasSubstr("malformed"));
  EXPECT_TRUE(Showing(absl::StrCat("Bearer ", alice))
                  .Multiply(OnesTimesTwos(1, 1, 1))
                  .ok());
}

TEST_F(IdentityTest, AUserOfAUnixSocketIsAPrincipal) {
  Start(absl::StrCat(R"({"name": "alice", "roles": ["compute"],
                         "unix_users": [")",
                     getuid(), R"("]})"));
  EXPECT_TRUE(Client(server_->unix_channel(), "")
                  .Multiply(OnesTimesTwos(2, 2, 2))
                  .ok());
  EXPECT_EQ(As("").Multiply(OnesTimesTwos(2, 2, 2)).error_code(),
            StatusCode::UNAUTHENTICATED)
      << "over TCP he is nobody";
  files_.WritePolicy(R"({"name": "alice", "unix_users": ["4242"]})");
  EXPECT_TRUE(testing::Eventually([&] {
    return Client(server_->unix_channel(), "")
               .Multiply(OnesTimesTwos(2, 2, 2))
               .error_message() ==
           "the user of this connection stands for no principal of this "
           "daemon";
  }));
}

TEST_F(IdentityTest, ATensorIsItsPrincipalsAlone) {
  StartAliceAndBob();
  std::string handle;
  ASSERT_TRUE(As("alice").Create(64, &handle).ok());
  const Client alice = As("alice"), bob = As("bob"), ops = As("ops");
  EXPECT_TRUE(alice.Describe(handle).ok()) << "by another connection";
  EXPECT_TRUE(alice.Download(handle).ok());
  const std::string unknown = absl::StrCat(
      "no tensor ", handle, ": never created, deleted, or expired");
  const auto refused = [&](const grpc::Status& status,
                           const std::string& text) {
    EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(status.error_message(), text);
  };
  for (const Client& other : {bob, ops}) {
    refused(other.Describe(handle), unknown);
    refused(other.Upload(handle), unknown);
    refused(other.Download(handle), unknown);
    refused(other.Delete(handle), unknown);
    v1::MatmulRequest request = OnesTimesTwos(64, 64, 64);
    request.mutable_header()->mutable_d()->set_tensor(handle);
    refused(other.Multiply(request), absl::StrCat("d.tensor: ", unknown));
    request = OnesTimesTwos(64, 64, 64);
    request.clear_a();
    request.mutable_header()->mutable_a()->set_tensor(handle);
    refused(other.Multiply(request), absl::StrCat("a.tensor: ", unknown));
  }
  EXPECT_EQ(alice.Handles(), std::set<std::string>{handle});
  EXPECT_TRUE(bob.Handles().empty());
  EXPECT_EQ(ops.Handles(), std::set<std::string>{handle});
  EXPECT_TRUE(alice.Delete(handle).ok());
}

TEST_F(IdentityTest, StatisticsAreOnesOwn) {
  StartAliceAndBob();
  const Client alice = As("alice"), bob = As("bob"), ops = As("ops");
  const int64_t all = ops.Info().devices(0).free_bytes();
  ASSERT_TRUE(alice.Multiply(OnesTimesTwos(8, 8, 8)).ok());
  ASSERT_FALSE(alice.Multiply(v1::MatmulRequest()).ok());
  ASSERT_TRUE(alice.Create(64).ok());
  const v1::Statistics hers = alice.Statistics();
  EXPECT_EQ(hers.requests(), 2);
  EXPECT_EQ(hers.failed(), 1);
  EXPECT_EQ(hers.received_bytes(), 2 * 2 * 8 * 8);
  EXPECT_EQ(hers.sent_bytes(), 4 * 8 * 8);
  EXPECT_EQ(hers.tensors(), 1);
  EXPECT_EQ(hers.tensor_bytes(), 64 * 64 * 4);
  EXPECT_FALSE(hers.has_cache());
  const v1::Statistics his = bob.Statistics();
  EXPECT_EQ(his.requests() + his.failed() + his.received_bytes() +
                his.sent_bytes() + his.tensors() + his.tensor_bytes(),
            0);
  EXPECT_FALSE(his.has_cache());
  EXPECT_FALSE(his.has_tuning());
  const v1::Statistics everybodys = ops.Statistics();
  EXPECT_EQ(everybodys.requests(), 2);
  EXPECT_EQ(everybodys.tensors(), 1);
  EXPECT_TRUE(everybodys.has_cache());
  // What is free tells of others, too.
  EXPECT_GT(all, 0);
  const int64_t before = bob.Info().devices(0).free_bytes();
  ASSERT_TRUE(alice.Create(640).ok());
  EXPECT_EQ(bob.Info().devices(0).free_bytes(), before);
}

TEST_F(IdentityTest, AQuotaOfTensorsIsOfAllConnectionsTogether) {
  TestServer::Options options;
  options.limits.max_tensor_bytes = 1 << 20;
  Start(R"({"name": "alice", "roles": ["tensors"], "max_tensors": 2},
           {"name": "bob", "roles": ["tensors"], "max_tensor_bytes": 40000})",
        std::move(options));
  EXPECT_TRUE(As("alice").Create(64).ok());
  EXPECT_TRUE(As("alice").Create(64).ok());
  EXPECT_EQ(As("alice").Create(64).error_message(),
            "this client has created 2 tensors; the limit of one is 2");
  EXPECT_TRUE(As("bob").Create(64).ok());
  EXPECT_TRUE(As("bob").Create(64).ok());
  EXPECT_EQ(As("bob").Create(64).error_message(),
            "a tensor of 16384 bytes does not fit: this client has 32768 bytes "
            "of tensors; the limit of one is 40000");
}

TEST_F(IdentityTest, AQuotaOfCallsIsOfAllConnectionsTogether) {
  Start(R"({"name": "alice", "roles": ["tensors"], "max_calls": 2},
           {"name": "bob", "roles": ["tensors"]})");
  // Uploads that have begun and send nothing more.
  struct Stalled {
    grpc::ClientContext context;
    v1::TensorInfo info;
    std::unique_ptr<grpc::ClientWriter<v1::UploadTensorRequest>> stream;
  };
  std::string handle;
  const Client alice = As("alice");
  ASSERT_TRUE(alice.Create(64, &handle).ok());
  std::vector<std::unique_ptr<Stalled>> stalled;
  for (int i = 0; i < 2; ++i) {
    auto one = std::make_unique<Stalled>();
    alice.Prepare(one->context);
    one->stream =
        v1::TensorService::NewStub(testing::Connect(server_->address()))
            ->UploadTensor(&one->context, &one->info);
    v1::UploadTensorRequest message;
    message.mutable_header()->set_handle(handle);
    ASSERT_TRUE(one->stream->Write(message));
    stalled.push_back(std::move(one));
  }
  EXPECT_TRUE(testing::Eventually([&] {
    const grpc::Status status = alice.Describe(handle);
    return status.error_code() == StatusCode::RESOURCE_EXHAUSTED &&
           status.error_message() ==
               "the principal has 2 calls, its limit (max_calls). Try again "
               "later.";
  }));
  EXPECT_TRUE(As("bob").Create(64).ok());
  for (const auto& one : stalled) {
    one->context.TryCancel();
    one->stream->Finish();
  }
  EXPECT_TRUE(testing::Eventually([&] { return alice.Describe(handle).ok(); }));
}

TEST_F(IdentityTest, BytesOnTheirWayAreOfAllConnectionsTogether) {
  constexpr int64_t kMessage = 512 << 10;
  TestServer::Options options;
  options.limits.max_message_bytes = kMessage;
  options.limits.max_in_flight_bytes = 4 * kMessage;
  options.limits.max_wait = absl::Milliseconds(100);
  StartAliceAndBob(std::move(options));
  // Products that were announced and do not come.
  struct Announced {
    Announced(const TestServer& server, const Client& client)
        : stub(testing::Connect(server.address())) {
      client.Prepare(context);
      context.AddMetadata("gemmd-message-bytes", absl::StrCat(kMessage));
      call =
          stub.PrepareCall(&context, "/gemmd.v1.MatmulService/Matmul", &queue);
      call->StartCall(nullptr);
      Wait();
    }
    ~Announced() {
      context.TryCancel();
      call->Finish(&status, nullptr);
      Wait();
    }
    void Wait() {
      void* tag;
      bool ok;
      queue.Next(&tag, &ok);
    }

    grpc::ClientContext context;
    grpc::GenericStub stub;
    grpc::CompletionQueue queue;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
    grpc::Status status;
  };
  const Client alice = As("alice"), bob = As("bob");
  v1::MatmulRequest request = OnesTimesTwos(64, 64, 1024);
  const auto multiply = [&](const Client& client) {
    grpc::ClientContext context;
    client.Prepare(context);
    context.AddMetadata("gemmd-message-bytes", absl::StrCat(kMessage));
    v1::MatmulResponse response;
    return client.Call(context, request, &response);
  };
  ASSERT_TRUE(multiply(alice).ok());
  const Announced first(*server_, alice), second(*server_, alice);
  // She has half of it by now, by whatever connections.
  EXPECT_TRUE(testing::Eventually([&] {
    const grpc::Status status = multiply(alice);
    return status.error_code() == StatusCode::RESOURCE_EXHAUSTED;
  }));
  EXPECT_TRUE(multiply(bob).ok());
}

TEST_F(IdentityTest, ATensorOfAConnectionEndsWithItAndNotWithItsPrincipal) {
  StartAliceAndBob();
  const Client alice = As("alice");
  std::string handle;
  {
    const Client other = As("alice");
    ASSERT_TRUE(other.Create(64, &handle, /*bound=*/true).ok());
    ASSERT_TRUE(alice.Describe(handle).ok());
  }
  EXPECT_TRUE(
      testing::Eventually([&] { return !alice.Describe(handle).ok(); }));
}

TEST_F(IdentityTest, FilesThatChangeCountAtOnce) {
  StartAliceAndBob();
  const Client alice = As("alice");
  ASSERT_TRUE(alice.Multiply(OnesTimesTwos(1, 1, 1)).ok());
  files_.WritePolicy(R"({"name": "alice", "roles": ["tensors"]})");
  EXPECT_TRUE(testing::Eventually([&] {
    return alice.Multiply(OnesTimesTwos(1, 1, 1)).error_code() ==
           StatusCode::PERMISSION_DENIED;
  }));
  files_.Write("tokens", PolicyFiles::LineOf("bob"));
  EXPECT_TRUE(testing::Eventually([&] {
    return alice.Multiply(OnesTimesTwos(1, 1, 1)).error_code() ==
           StatusCode::UNAUTHENTICATED;
  }));
  // What is half written changes nothing.
  files_.Write("policy", "{\"principals\": [");
  absl::SleepFor(absl::Milliseconds(1500));
  EXPECT_EQ(As("bob").Multiply(OnesTimesTwos(1, 1, 1)).error_message(),
            "the token stands for no principal of this daemon");
}

// Whoever asks more often gets no more than his weight, and who has more of it
// gets more.
TEST_F(IdentityTest, TimeOfTheDeviceIsSharedByWeight) {
  TestServer::Options options;
  options.executor.lanes = 1;
  Start(R"({"name": "alice", "roles": ["compute"], "weight": 4},
           {"name": "bob", "roles": ["compute"]})",
        std::move(options));
  std::atomic<int> all = 0;
  std::map<std::string, std::atomic<int>> done;
  done["alice"] = 0;
  done["bob"] = 0;
  const v1::MatmulRequest request = OnesTimesTwos(192, 192, 192);
  ASSERT_TRUE(As("alice").Multiply(request).ok());  // Its kernel is there.
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    for (const char* const name : {"alice", "bob"}) {
      threads.emplace_back([&, name, client = As(name)] {
        while (all < 400) {
          if (!client.Multiply(request).ok()) continue;
          if (all++ < 400) ++done[name];
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NEAR(done["alice"], 320, 0.2 * 320);
  EXPECT_NEAR(done["bob"], 80, 0.2 * 320);
}

TEST(WithoutIdentityTest, EverybodyMayUseAHandleThatHeKnows) {
  TestServer server;
  const Client one(server.address(), ""), other(server.address(), "");
  std::string handle;
  ASSERT_TRUE(one.Create(64, &handle).ok());
  EXPECT_TRUE(other.Describe(handle).ok());
  EXPECT_TRUE(other.Handles().empty());
  EXPECT_TRUE(other.Statistics().has_cache());
  // A token means nothing where nobody is asked for one.
  EXPECT_TRUE(Client(server.address(), "alice").Create(64).ok());
}

}  // namespace
}  // namespace gemmd
