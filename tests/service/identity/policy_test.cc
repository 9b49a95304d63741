// Who the policy file makes whom, and what is wrong with one that is refused.
#include "service/identity/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace gemmd::identity {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Policy> Of(const std::string& principals) {
  return Policy::Parse(absl::StrCat("{\"principals\": [", principals, "]}"));
}

TEST(PolicyTest, GivesRolesWeightsAndLimits) {
  const auto policy = Of(R"({"name": "alice", "roles": ["compute", "tensors"],
                             "weight": 3, "max_tensor_bytes": 100,
                             "max_tensors": 10, "max_calls": 5,
                             "max_in_flight_bytes": 65536},
                            {"name": "bob"})");
  ASSERT_TRUE(policy.ok()) << policy.status();
  const PrincipalPointer alice = policy->Named("alice");
  ASSERT_NE(alice, nullptr);
  EXPECT_TRUE(alice->Check(Access::kCompute).ok());
  EXPECT_TRUE(alice->Check(Access::kTensors).ok());
  EXPECT_TRUE(alice->Check(Access::kAnyPrincipal).ok());
  EXPECT_EQ(alice->Check(Access::kAdmin),
            absl::PermissionDeniedError("the method needs the role admin; this "
                                        "principal has: compute, tensors"));
  EXPECT_EQ(alice->weight, 3);
  EXPECT_EQ(alice->max_tensor_bytes, 100);
  EXPECT_EQ(alice->max_tensors, 10);
  EXPECT_EQ(alice->max_calls, 5);
  EXPECT_EQ(alice->max_in_flight_bytes, 65536);
  const PrincipalPointer bob = policy->Named("bob");
  EXPECT_EQ(bob->weight, 1);
  EXPECT_THAT(bob->Check(Access::kKernels).message(), HasSubstr("has: none"));
  EXPECT_EQ(policy->Named("carol"), nullptr);
}

TEST(PolicyTest, AdminImpliesNothing) {
  const PrincipalPointer admin =
      Of(R"({"name": "ops", "roles": ["admin"]})")->Named("ops");
  EXPECT_TRUE(admin->Check(Access::kAdmin).ok());
  EXPECT_FALSE(admin->Check(Access::kCompute).ok());
  EXPECT_FALSE(admin->Check(Access::kKernels).ok());
}

TEST(PolicyTest, KnowsUsersByNameAndNumber) {
  const auto policy = Of(R"({"name": "a", "unix_users": ["root", "1234"]},
                            {"name": "b", "unix_users": ["77"]})");
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->OfUser(0)->name, "a");
  EXPECT_EQ(policy->OfUser(1234)->name, "a");
  EXPECT_EQ(policy->OfUser(77)->name, "b");
  EXPECT_EQ(policy->OfUser(78), nullptr);
}

TEST(PolicyTest, KnowsCertificatesByAnyOfTheirNames) {
  const auto policy = Of(R"({"name": "a", "certificates": ["CN:w", "DNS:x"]},
                            {"name": "b", "certificates": ["URI:spiffe://b"]})");
  ASSERT_TRUE(policy.ok()) << policy.status();
  const auto of = [&](std::vector<std::string> names) {
    return policy->OfCertificate(names);
  };
  EXPECT_EQ(of({"CN:z", "DNS:x"})->name, "a");
  EXPECT_EQ(of({"CN:w", "DNS:x"})->name, "a");
  EXPECT_EQ(of({"URI:spiffe://b"})->name, "b");
  EXPECT_EQ(of({"DNS:w"}), nullptr) << "a name is not of another kind";
  EXPECT_EQ(of({"CN:w", "URI:spiffe://b"}), nullptr) << "it is of two";
}

TEST(PolicyTest, SaysWhatIsWrong) {
  const auto error = [](const std::string& principals) {
    const auto policy = Of(principals);
    EXPECT_TRUE(absl::IsInvalidArgument(policy.status())) << principals;
    return std::string(policy.status().message());
  };
  EXPECT_THAT(error("{"), HasSubstr("no JSON of gemmd.v1.Policy"));
  EXPECT_EQ(Policy::Parse("").status().message(),
            "it is no JSON of gemmd.v1.Policy: Unexpected end of string. "
            "Expected a value. It ends there.");
  const std::string broken = error("{]");
  EXPECT_THAT(broken, HasSubstr(" It goes on: ]"));
  EXPECT_EQ(broken.find('\n'), broken.npos) << broken;
  EXPECT_THAT(error(R"({"name": "a", "role": ["admin"]})"), HasSubstr("role"));
  EXPECT_THAT(error(R"({"name": "a", "weight": "heavy"})"), HasSubstr("heavy"));
  EXPECT_EQ(error(R"({"roles": ["compute"]})"),
            "principals[0]: the name has to be 1 to 64 letters, digits and "
            "\"_.-@\"");
  EXPECT_THAT(error(R"({"name": "a b"})"), HasSubstr("the name has to be"));
  EXPECT_EQ(error(R"({"name": "a"}, {"name": "a"})"),
            "principals[1]: a is there already");
  EXPECT_EQ(error(R"({"name": "a", "roles": ["Compute"]})"),
            "principals[0]: \"Compute\" is no role; allowed: compute, tensors, "
            "kernels, admin");
  EXPECT_EQ(error(R"({"name": "a", "weight": 1001})"),
            "principals[0]: weight is 1001; allowed: 0 to 1000");
  EXPECT_EQ(error(R"({"name": "a", "max_calls": -1})"),
            "principals[0]: max_calls is -1; allowed: from 0");
  EXPECT_EQ(error(R"({"name": "a", "max_in_flight_bytes": 65535})"),
            "principals[0]: max_in_flight_bytes is 65535; allowed: 0, and from "
            "65536");
  EXPECT_THAT(error(R"({"name": "a", "unix_users": ["no one of that name"]})"),
              HasSubstr("this machine has no user"));
  EXPECT_EQ(error(R"({"name": "a", "unix_users": ["1"]},
                     {"name": "b", "unix_users": ["1"]})"),
            "principals[1]: the user 1 is another principal already");
  EXPECT_THAT(error(R"({"name": "a", "certificates": ["worker"]})"),
              HasSubstr("allowed: URI:, DNS:, email: or CN:"));
  EXPECT_EQ(error(R"({"name": "a", "certificates": ["CN:w"]},
                     {"name": "b", "certificates": ["CN:w"]})"),
            "principals[1]: the certificate CN:w is another principal already");
}

TEST(PolicyTest, NamesEachFieldOnce) {
  const auto error = [](absl::string_view json) {
    const auto policy = Policy::Parse(json);
    EXPECT_TRUE(absl::IsInvalidArgument(policy.status())) << json;
    return std::string(policy.status().message());
  };
  const std::string alice = R"({"name": "a", "roles": ["compute"]})";
  EXPECT_EQ(error(absl::StrCat(R"({"principals": [)", alice,
                               R"(], "principals": []})")),
            "the policy: \"principals\" is named twice");
  EXPECT_EQ(error(absl::StrCat(R"({"principals": [)", alice, R"(, {"name": "b",
                     "roles": ["compute"], "roles": ["tensors"]}]})")),
            "principals[1]: \"roles\" is named twice");
  EXPECT_EQ(error(R"({"principals": [{"name": "a", "max_calls": 1,
                                      "maxCalls": 0}]})"),
            "principals[0]: \"maxCalls\" is named twice")
      << "protobuf has two names for it";
  EXPECT_THAT(error(R"({"principals": [{"name": "a", "weight": 1,
                                        "\u0077eight": 2}]})"),
              HasSubstr("\"weight\" is named twice"));
}

TEST(PolicyTest, ValuesAreOfTheirTypes) {
  const auto error = [](absl::string_view json) {
    const auto policy = Policy::Parse(json);
    EXPECT_TRUE(absl::IsInvalidArgument(policy.status())) << json;
    return std::string(policy.status().message());
  };
  const auto of_alice = [&](absl::string_view fields) {
    return error(
        absl::StrCat(R"({"principals": [{"name": "a", )", fields, "}]}"));
  };
  EXPECT_EQ(of_alice(R"("roles": "compute")"),
            "principals[0]: \"roles\" has a value of another type; allowed: a "
            "list");
  EXPECT_EQ(of_alice(R"("maxCalls": "3")"),
            "principals[0]: \"maxCalls\" has a value of another type; "
            "allowed: a number");
  for (const char* null :
       {R"("max_calls": null)", R"("weight": null)", R"("roles": null)",
        R"("roles": [null])", R"("unix_users": [null])"}) {
    EXPECT_NE(of_alice(null), "") << null;
  }
  EXPECT_THAT(of_alice(R"("roles": [1])"), HasSubstr("roles"));
  EXPECT_NE(error(R"({"principals": null})"), "");
  EXPECT_NE(error(R"({"principals": {"name": "a"}})"), "");
  EXPECT_NE(error(R"({"principals": [null]})"), "");
  EXPECT_NE(error(R"({"principals": [{"name": null}]})"), "");
  EXPECT_NE(error("null"), "");
  EXPECT_NE(error("[]"), "");
  EXPECT_NE(error("\"\""), "");
}

TEST(PolicyTest, TakesWhatIsAtItsLimit) {
  const auto named = [](size_t size) {
    return Of(absl::StrCat(R"({"name": ")", std::string(size, 'a'), R"("})"))
        .ok();
  };
  EXPECT_TRUE(named(64));
  EXPECT_FALSE(named(65));
  EXPECT_TRUE(Of(R"({"name": "a", "weight": 1000})").ok());
  EXPECT_FALSE(Of(R"({"name": "a", "weight": 1001})").ok());
  EXPECT_TRUE(Of(R"({"name": "a", "certificates": ["DNS:x"]})").ok());
  EXPECT_FALSE(Of(R"({"name": "a", "certificates": ["DNS:"]})").ok());
  std::string principals = R"({"name": "p0"})";
  for (int i = 1; i < 10'000; ++i) {
    absl::StrAppend(&principals, R"(, {"name": "p)", i, R"("})");
  }
  EXPECT_TRUE(Of(principals).ok());
  EXPECT_EQ(Of(principals + R"(, {"name": "last"})").status().message(),
            "it has 10001 principals; allowed: 0 to 10000");
}

TEST(PolicyTest, NumbersOfUsersAreDigits) {
  for (const char* user : {" 0", "0 ", "+0", "-0", "0x0", "", "4294967296"}) {
    const auto policy =
        Of(absl::StrCat(R"({"name": "a", "unix_users": [")", user, R"("]})"));
    EXPECT_THAT(policy.status().message(), HasSubstr("has no user")) << user;
  }
}

TEST(PolicyTest, IsJsonForEveryReader) {
  for (const absl::string_view json :
       {"{'principals': []}", "{principals: []}",
        R"({"principals": []} {"principals": []})"}) {
    EXPECT_THAT(Policy::Parse(json).status().message(),
                HasSubstr("it is no JSON"))
        << json;
  }
}

}  // namespace
}  // namespace gemmd::identity
