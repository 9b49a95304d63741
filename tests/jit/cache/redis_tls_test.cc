// The shared tier by TLS: whom it believes, against a real Redis.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
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

  // Of a server on `port` with a certificate of `names`.
  std::vector<std::string> Arguments(const std::string& names,
                                     const std::string& port) const {
    const Certificate own(
        {.name = "redis", .alternatives = names, .authority = &authority_});
    return {"--tls-port",         port,
            "--tls-auth-clients", "no",
            "--tls-ca-cert-file", ca_,
            "--tls-cert-file",    Write(port, own.Pem()),
            "--tls-key-file",     Write(port + ".key", own.KeyPem())};
  }

  static absl::Time Soon() { return SteadyNow() + absl::Seconds(30); }

  RedisConnection Connection(const std::string& host, const std::string& port,
                             const std::string& ca_file) const {
    return RedisConnection({.address = absl::StrCat(host, ":", port),
                            .tls = true,
                            .ca_file = ca_file});
  }
  // What a server at `host` comes to, whom those in `ca_file` vouch for.
  absl::Status Ping(const std::string& host, const std::string& ca_file) const {
    return Connection(host, port_, ca_file)
        .Command({"PING"}, 100, Soon())
        .status();
  }

  const TemporaryDirectory directory_;
  const Certificate authority_{{.name = "authority", .is_authority = true}};
  const std::string ca_ = Write("ca", authority_.Pem());
  const std::string port_ = FreePort();
  RedisServerProcess server_{"",
                             Arguments("DNS:localhost,IP:127.0.0.1", port_)};
};

TEST_F(RedisTlsTest, AServerIsWhoItsCertificateSays) {
  EXPECT_TRUE(Ping("127.0.0.1", ca_).ok());
  EXPECT_TRUE(Ping("localhost", ca_).ok());
  // The same server under a name that is not in it.
  const absl::Status other = Ping("127.0.0.2", ca_);
  EXPECT_TRUE(absl::IsUnauthenticated(other)) << other;
  const std::string port = FreePort();
  const RedisServerProcess elsewhere(
      "", Arguments("DNS:elsewhere,IP:127.0.0.1", port));
  const absl::Status wrong = Connection("localhost", port, ca_)
                                 .Command({"PING"}, 100, Soon())
                                 .status();
  EXPECT_TRUE(absl::IsUnauthenticated(wrong)) << wrong;
}

// What serves several names at one address has to know which is meant.
TEST_F(RedisTlsTest, AServerIsToldWhichNameIsMeant) {
  std::string hello(4096, '\0');
  std::string port;
  {
    const FakeServer server([&](int socket) {
      const ssize_t got = recv(socket, hello.data(), hello.size(), 0);
      hello.resize(got > 0 ? static_cast<size_t>(got) : 0);
    });
    port = server.address().substr(server.address().rfind(':') + 1);
    EXPECT_FALSE(
        Connection("localhost", port, ca_).Command({"PING"}, 100, Soon()).ok());
  }
  EXPECT_TRUE(absl::StrContains(hello, "localhost"));
}

// In pieces, as records of TLS and the server's writes end.
TEST_F(RedisTlsTest, WhatIsLargeComesBackWhole) {
  RedisConnection connection = Connection("localhost", port_, ca_);
  std::string value(1 << 20, '\0');
  for (size_t i = 0; i < value.size(); ++i) {
    value[i] = static_cast<char>(i / 251);
  }
  ASSERT_TRUE(connection.Command({"SET", "key", value}, 100, Soon()).ok());
  const auto read = connection.Command({"GET", "key"}, 1 << 20, Soon());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == value);
}

TEST_F(RedisTlsTest, AServerThatShakesNoHandsIsWaitedForUntilTheDeadline) {
  const FakeServer server([](int socket) {
    char bytes[4096];
    while (recv(socket, bytes, sizeof(bytes), 0) > 0) {
    }
  });
  const std::string address = server.address();
  const absl::Status status =
      Connection("127.0.0.1", address.substr(address.rfind(':') + 1), ca_)
          .Command({"PING"}, 100, SteadyNow() + absl::Milliseconds(200))
          .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

// While it is written to: the signal of it would end this process.
TEST_F(RedisTlsTest, AServerThatEndsIsAnErrorAndNoSignal) {
  RedisConnection connection = Connection("localhost", port_, ca_);
  ASSERT_TRUE(connection.Command({"PING"}, 100, Soon()).ok());
  server_.Kill();
  const absl::Status status =
      connection.Command({"SET", "key", std::string(1 << 20, 'x')}, 100, Soon())
          .status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  // It is not left for whoever comes next, either.
  sigset_t signals;
  sigpending(&signals);
  EXPECT_EQ(sigismember(&signals, SIGPIPE), 0);
  pthread_sigmask(SIG_BLOCK, nullptr, &signals);
  EXPECT_EQ(sigismember(&signals, SIGPIPE), 0);
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
