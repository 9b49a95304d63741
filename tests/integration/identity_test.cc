// Principals: who they are, and what they may call.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "inference/service.grpc.pb.h"
#include "tests/integration/eventually.h"
#include "tests/integration/identity_fixture.h"
#include "tests/service/gate.h"

namespace gemmd {
namespace {

// What the machine's look-ups of users by name pass in this program.
testing::Gate& LookUps() {
  static auto& gate = *new testing::Gate;
  return gate;
}

}  // namespace
}  // namespace gemmd

// Instead of the C library's: knows nobody.
extern "C" int getpwnam_r(const char*, passwd*, char*, size_t, passwd** found) {
  gemmd::LookUps().Pass();
  *found = nullptr;
  return 0;
}

namespace gemmd {
namespace {

using testing::Eventually;
using ::testing::HasSubstr;
using testing::IdentityTest;
using ::testing::Not;
using testing::OnesTimesTwos;
using testing::PolicyFiles;
using Client = testing::PrincipalClient;
using grpc::StatusCode;
using testing::TestServer;

// Every method that the API has, by what it needs: a new one without a line
// here fails the test.
const std::map<std::string, std::string>& RolesOfMethods() {
  static const auto& roles = *new std::map<std::string, std::string>({
      {"MatmulService/Matmul", "compute"},
      {"MatmulService/MatmulGrouped", "compute"},
      {"MatmulService/Sequence", "compute"},
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

// Inferences that follow each other on one stream.
class InferStream {
 public:
  explicit InferStream(const Client& client)
      : stub_(inference::GRPCInferenceService::NewStub(client.channel())) {
    client.Prepare(context_);
    stream_ = stub_->ModelStreamInfer(&context_);
  }

  // Whether the next one is answered.
  bool Infer() {
    inference::ModelInferRequest request;
    request.set_model_name("matmul");
    for (const char* const name : {"A", "B"}) {
      auto& input = *request.add_inputs();
      input.set_name(name);
      input.set_datatype("INT8");
      input.add_shape(1);
      input.add_shape(1);
      input.mutable_contents()->add_int_contents(1);
    }
    inference::ModelStreamInferResponse response;
    if (!stream_->Write(request) || !stream_->Read(&response)) return false;
    EXPECT_EQ(response.error_message(), "");
    return true;
  }
  // There will be none.
  void End() { stream_->WritesDone(); }
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<inference::ModelInferRequest,
                                           inference::ModelStreamInferResponse>>
      stream_;
};

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

TEST_F(IdentityTest, ALookUpOfUsersThatHangsHoldsUpNoDrain) {
  StartAliceAndBob();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
  const auto watch = grpc::health::v1::Health::NewStub(server_->channel())
                         ->Watch(&context, {});
  grpc::health::v1::HealthCheckResponse health;
  ASSERT_TRUE(watch->Read(&health));
  LookUps().Close();
  files_.WritePolicy(R"({"name": "alice", "unix_users": ["somebody"]})");
  EXPECT_TRUE(LookUps().WaitForArrivals(1));
  std::thread drain([&] { server_->server().Drain(); });
  while (watch->Read(&health)) continue;
  EXPECT_EQ(watch->Finish().error_code(), StatusCode::UNAVAILABLE);
  LookUps().Open();
  drain.join();
}

TEST_F(IdentityTest, InferencesOfAStreamAreJudgedByWhatCountsThen) {
  StartAliceAndBob();
  InferStream alice(As("alice")), bob(As("bob")), ops(As("ops"));
  for (InferStream* const stream : {&alice, &bob, &ops}) {
    ASSERT_TRUE(stream->Infer());
  }
  const auto end = [](InferStream& stream) {
    EXPECT_TRUE(Eventually([&] { return !stream.Infer(); }));
    return stream.Finish();
  };
  files_.WritePolicy(absl::StrCat(R"({"name": "alice", "roles": ["tensors"]},
                                     {"name": "bob", "roles": ["compute"]},
                                     {"name": "ops", )",
                                  testing::kEverything, "}"));
  EXPECT_EQ(end(alice).error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(bob.Infer());  // Whose roles are others, too.
  const std::string was_bobs = PolicyFiles::LineOf("bob").substr(3);
  files_.Write("tokens", absl::StrCat("ops", was_bobs));
  const grpc::Status gone = end(ops);
  EXPECT_EQ(gone.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(gone.error_message(), "the token is unknown");
  const grpc::Status other = end(bob);
  EXPECT_EQ(other.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(other.error_message(),
            "what the call showed stands for another principal now");
}

TEST_F(IdentityTest, AStreamThatAsksForNothingMoreIsNotJudged) {
  StartAliceAndBob();
  InferStream stream(As("alice"));
  ASSERT_TRUE(stream.Infer());
  files_.WritePolicy(R"({"name": "alice", "roles": ["tensors"]})");
  ASSERT_TRUE(Eventually([&] {
    return As("alice").Multiply(OnesTimesTwos(1, 1, 1)).error_code() ==
           StatusCode::PERMISSION_DENIED;
  }));
  // For the clock of calls, which goes on four times a second.
  absl::SleepFor(absl::Milliseconds(300));
  stream.End();
  const grpc::Status status = stream.Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(IdentityTest, TransfersEndOnceTheirPrincipalMayNotMakeThem) {
  StartAliceAndBob();
  const Client alice = As("alice");
  const auto stub = v1::TensorService::NewStub(alice.channel());
  // Of 64 MiB: more than lies on the way when a client does not read.
  std::string full, empty;
  ASSERT_TRUE(alice.Create(1 << 18, &full).ok());
  ASSERT_TRUE(alice.Create(1 << 18, &empty).ok());
  v1::TensorInfo info;
  v1::UploadTensorRequest data;
  data.set_data(std::string(1 << 20, '\0'));
  const auto upload = [&](const std::string& handle,
                          grpc::ClientContext& context) {
    alice.Prepare(context);
    auto writer = stub->UploadTensor(&context, &info);
    v1::UploadTensorRequest header;
    header.mutable_header()->set_handle(handle);
    EXPECT_TRUE(writer->Write(header));
    return writer;
  };
  grpc::ClientContext before, during, download;
  {
    const auto writer = upload(full, before);
    for (int i = 0; i < 64; ++i) ASSERT_TRUE(writer->Write(data));
    writer->WritesDone();
    ASSERT_TRUE(writer->Finish().ok());
  }
  const auto writer = upload(empty, during);
  alice.Prepare(download);
  v1::DownloadTensorRequest request;
  request.set_handle(full);
  request.set_chunk_bytes(1 << 20);
  const auto reader = stub->DownloadTensor(&download, request);
  v1::DownloadTensorResponse response;
  ASSERT_TRUE(reader->Read(&response));
  files_.WritePolicy(R"({"name": "alice", "roles": ["compute"]})");
  ASSERT_TRUE(Eventually([&] {
    return alice.Describe(full).error_code() == StatusCode::PERMISSION_DENIED;
  }));
  // Slower than the clock of calls, which goes on four times a second.
  data.set_data(std::string(1 << 16, '\0'));
  EXPECT_TRUE(Eventually([&] { return !writer->Write(data); }));
  EXPECT_EQ(writer->Finish().error_code(), StatusCode::PERMISSION_DENIED);
  while (reader->Read(&response)) absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::PERMISSION_DENIED);
}

}  // namespace
}  // namespace gemmd
