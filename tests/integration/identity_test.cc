// Principals: who they are, and what they may call.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/eventually.h"
#include "tests/integration/identity_fixture.h"

namespace gemmd {
namespace {

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

}  // namespace
}  // namespace gemmd
