// The shared tier by TLS: whom it believes, against a real Redis.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "jit/base/file.h"
#include "jit/base/steady_time.h"
#include "jit/cache/redis_connection.h"
#include "tests/jit/cache/redis_server.h"
#include "tests/service/tls/certificates.h"

namespace gemmd::jit {
namespace {

using gemmd::testing::Certificate;

// One that nobody listens on.
std::string FreePort() {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener.get(), generic, length), 0);
  EXPECT_EQ(getsockname(listener.get(), generic, &length), 0);
  return absl::StrCat(ntohs(address.sin_port));
}

class RedisTlsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) const {
    const std::string path = directory_.path() + "/" + name;
    std::ofstream(path, std::ios::trunc) << content;
    return path;
  }

  // What a server at `host` comes to, whom those in `ca_file` vouch for.
  absl::Status Ping(const std::string& host, const std::string& ca_file) const {
    RedisConnection connection({.address = absl::StrCat(host, ":", port_),
                                .tls = true,
                                .ca_file = ca_file});
    return connection.Command({"PING"}, 100, SteadyNow() + absl::Seconds(30))
        .status();
  }

  const TemporaryDirectory directory_;
  const Certificate authority_{{.name = "authority", .is_authority = true}};
  const Certificate own_{{.name = "redis",
                          .alternatives = "DNS:localhost,IP:127.0.0.1",
                          .authority = &authority_}};
  const std::string ca_ = Write("ca", authority_.Pem());
  const std::string port_ = FreePort();
  const RedisServerProcess server_{
      "",
      {"--tls-port", port_, "--tls-auth-clients", "no", "--tls-ca-cert-file",
       ca_, "--tls-cert-file", Write("own", own_.Pem()), "--tls-key-file",
       Write("key", own_.KeyPem())}};
};

TEST_F(RedisTlsTest, AServerIsWhoItsCertificateSays) {
  EXPECT_TRUE(Ping("127.0.0.1", ca_).ok());
  EXPECT_TRUE(Ping("localhost", ca_).ok());
  // The same server under a name that is not in it.
  const absl::Status other = Ping("127.0.0.2", ca_);
  EXPECT_TRUE(absl::IsUnauthenticated(other)) << other;
}

TEST_F(RedisTlsTest, ItsAuthorityIsToBeATrustedOne) {
  const Certificate stranger({.name = "stranger", .is_authority = true});
  const absl::Status status =
      Ping("localhost", Write("stranger", stranger.Pem()));
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
}

// Which takes longer than a connection may, at times.
TEST_F(RedisTlsTest, AuthoritiesOfTheSystemAreReadOnce) {
  setenv("SSL_CERT_FILE", ca_.c_str(), 1);
  EXPECT_TRUE(Ping("localhost", "").ok());
  std::filesystem::remove(ca_);
  EXPECT_TRUE(Ping("localhost", "").ok());
  // One that was given may have been replaced.
  EXPECT_TRUE(absl::IsUnauthenticated(Ping("localhost", ca_)));
}

}  // namespace
}  // namespace gemmd::jit
