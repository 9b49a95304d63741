// What counts of what is said of a client's files, and where a token goes.
#include "clients/cpp/security.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

TEST(IsThisMachineTest, OnlyWhereNoNetworkIsBetween) {
  for (const char* target :
       {"localhost:1", "127.0.0.1:1", "127.255.0.2:1", "[::1]:1", "unix:/x",
        "unix-abstract:x", "dns:///localhost:1", "dns:localhost:1",
        "ipv4:127.0.0.1:1", "ipv6:[::1]:1"}) {
    EXPECT_TRUE(IsThisMachine(target)) << target;
  }
  for (const char* target :
       {"example.com:1", "10.0.0.1:1", "126.0.0.1:1", "127.example.com:1",
        "localhost.example.com:1", "[2001:db8::1]:1", "ipv6:[2001:db8::1]:1",
        "dns:///gemmd:1", "dns://8.8.8.8/localhost:1", "unixsocket:1", "",
        "ipv4:127.0.0.1:1,10.0.0.1:1", "ipv4:127.0.0.1:1%2C10.0.0.1:1"}) {
    EXPECT_FALSE(IsThisMachine(target)) << target;
  }
}

TEST(CheckSecurityTest, ATokenGoesOverANetworkByTlsAlone) {
  Security security = {.token_file = "token"};
  EXPECT_EQ(CheckSecurity(security, "localhost:1"), absl::OkStatus());
  const absl::Status refused = CheckSecurity(security, "example.com:1");
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("example.com:1 in plaintext"));
  security.ca_file = "system";
  EXPECT_EQ(CheckSecurity(security, "example.com:1"), absl::OkStatus());
}

TEST(CheckSecurityTest, ACertificateHasAKeyAndAKeyACertificate) {
  for (const Security& half :
       {Security{.certificate_file = "c"}, Security{.key_file = "k"}}) {
    const absl::Status refused = CheckSecurity(half, "localhost:1");
    EXPECT_THAT(refused.message(), HasSubstr("go together"));
  }
}

class FilesTest : public testing::Test {
 protected:
  ~FilesTest() override {
    std::remove(file_.c_str());
    unsetenv("GEMMD_CONFIG");
    for (const SecurityOption& option : SecurityOptions()) {
      unsetenv(option.environment);
    }
  }
  void Write(const std::string& text) { std::ofstream(file_) << text; }
  absl::StatusOr<Security> Configured(const std::string& text) {
    Write(text);
    setenv("GEMMD_CONFIG", file_.c_str(), 1);
    return Security::Default();
  }

  const std::string file_ = testing::TempDir() + "gemmd_security_file";
};

TEST_F(FilesTest, TheEnvironmentCountsMoreThanAConfiguration) {
  setenv("GEMMD_CA_FILE", "of environment", 1);
  setenv("GEMMD_TOKEN_FILE", "", 1);  // As if it were not there.
  const auto security = Configured(
      "# a comment = x\n\n"
      "ca-file = of configuration\n"
      "  token-file=\"/a token\" \n");
  ASSERT_TRUE(security.ok()) << security.status();
  EXPECT_EQ(security->ca_file, "of environment");
  EXPECT_EQ(security->token_file, "/a token");
  EXPECT_EQ(security->key_file, "");
  setenv("GEMMD_CONFIG", "", 1);
  EXPECT_TRUE(Security::Default().ok());
}

TEST_F(FilesTest, LinesThatSayNothingAreRefused) {
  for (const char* line : {"token-file", "token-file =", "token_file = x",
                           "token = secret", "= x"}) {
    const absl::Status refused =
        Configured(absl::StrCat("# fine\n", line)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << line;
    EXPECT_THAT(refused.message(), HasSubstr("line 2 is wrong")) << line;
  }
}

TEST_F(FilesTest, ATokenIsReadAgainAndStaysWhereItCannotBe) {
  Write(" first-token\n");
  const auto tokens = Authorization::Open(file_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ((*tokens)->Get(), "Bearer first-token");
  Write("no token");
  const auto broken = Authorization::Open(file_);
  ASSERT_TRUE(absl::IsInvalidArgument(broken.status())) << broken.status();
  const auto others = [&] {
    Write("second-token");
    return Authorization::Open(file_).value();
  }();
  Write("third-token");
  EXPECT_EQ((*tokens)->Get(), "Bearer first-token");
  absl::SleepFor(absl::Seconds(10.1));
  EXPECT_EQ((*tokens)->Get(), "Bearer third-token");
  std::remove(file_.c_str());
  EXPECT_EQ(others->Get(), "Bearer second-token");
}

}  // namespace
}  // namespace gemmd::client
