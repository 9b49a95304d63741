// The daemon over TLS: products, client certificates, rotations, and those who
// connect to do harm.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/eventually.h"
#include "tests/integration/policy_files.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/test_server.h"
#include "tests/service/tls/certificates.h"

namespace gemmd {
namespace {

using grpc::StatusCode;
using testing::Certificate;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::OnesTimesTwos;
using testing::PolicyFiles;
using testing::TestServer;

class TlsTest : public ::testing::Test {
 protected:
  // "worker" is who shows a certificate of that name, or sends its token.
  void Start(TestServer::Options options = {}) {
    options.tls = {.certificate = files_.Write("cert", server_one_.Pem()),
                   .key = files_.Write("key", server_one_.KeyPem()),
                   .client_ca = files_.Write("ca", clients_.Pem())};
    options.identity = {
        .policy = files_.WritePolicy(
            R"({"name": "worker", "roles": ["compute"],
                "certificates": ["CN:worker", "URI:spiffe://worker"]})"),
        .token_digests = files_.Write("tokens", PolicyFiles::LineOf("worker"))};
    server_ = std::make_unique<TestServer>(std::move(options));
  }

  Certificate ClientOf(Certificate::Options options) const {
    if (options.authority == nullptr) options.authority = &clients_;
    return Certificate(options);
  }
  // A connection of its own; `own` may be null.
  std::shared_ptr<grpc::Channel> Connect(const Certificate* own,
                                         const Certificate& trusted) const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = trusted.Pem();
    if (own != nullptr) {
      options.pem_cert_chain = own->Pem();
      options.pem_private_key = own->KeyPem();
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel(server_->address(),
                                     grpc::SslCredentials(options), arguments);
  }
  std::shared_ptr<grpc::Channel> Connect(const Certificate* own = nullptr) {
    return Connect(own, servers_);
  }

  static grpc::Status Multiply(const std::shared_ptr<grpc::Channel>& channel,
                               const std::string& token = "",
                               int64_t size = 4) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    if (!token.empty()) {
      context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    }
    v1::MatmulResponse response;
    const grpc::Status status = v1::MatmulService::NewStub(channel)->Matmul(
        &context, OnesTimesTwos(size, size, 4), &response);
    if (status.ok()) {
      EXPECT_EQ(response.d().size(), static_cast<size_t>(size * size * 4));
      const float eight = 8;
      EXPECT_EQ(response.d().substr(response.d().size() - 4),
                std::string(reinterpret_cast<const char*>(&eight), 4));
    }
    return status;
  }
  static std::string Error(const std::shared_ptr<grpc::Channel>& channel) {
    const grpc::Status status = Multiply(channel);
    EXPECT_EQ(status.error_code(), StatusCode::UNAUTHENTICATED)
        << status.error_message();
    return status.error_message();
  }
  // A bare socket; -1 when nobody takes it.
  int Dial() const {
    int port = 0;
    const std::string& address = server_->address();
    EXPECT_TRUE(
        absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    return fd;
  }

  const Certificate servers_{{.name = "servers", .is_authority = true}};
  const Certificate clients_{{.name = "clients", .is_authority = true}};
  const Certificate others_{{.name = "clients", .is_authority = true}};
  const Certificate server_one_{{.name = "one",
                                 .alternatives = "DNS:localhost,IP:127.0.0.1",
                                 .authority = &servers_}};
  const std::string token_ = PolicyFiles::TokenOf("worker");
  PolicyFiles files_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(TlsTest, ServesSmallAndLargeProducts) {
  Start();
  const auto channel = Connect();
  for (const int64_t size : {1, 4, 100, 1000, 3000}) {
    const grpc::Status status = Multiply(channel, token_, size);
    EXPECT_TRUE(status.ok()) << size << " " << status.error_message();
  }
}

TEST_F(TlsTest, ServesManyAtOnce) {
  Start();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, shared = Connect()] {
      // gRPC 1.51 now and then takes a connection that is under way for one
      // that failed (its pull request 35064), and tries again.
      EXPECT_TRUE(shared->WaitForConnected(std::chrono::system_clock::now() +
                                           std::chrono::seconds(20)));
      std::vector<std::thread> calls;
      for (int j = 0; j < 4; ++j) {
        calls.emplace_back([&] {
          for (int k = 0; k < 10; ++k) {
            const grpc::Status status =
                Multiply(shared, token_, k % 3 == 0 ? 700 : 8);
            EXPECT_TRUE(status.ok()) << status.error_message();
          }
        });
      }
      for (std::thread& call : calls) call.join();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(TlsTest, ThePortIsForTlsAloneAndTheServerProvesItself) {
  Start();
  EXPECT_EQ(Multiply(testing::Connect(server_->address()), token_).error_code(),
            StatusCode::UNAVAILABLE);
  EXPECT_EQ(Multiply(Connect(nullptr, others_), token_).error_code(),
            StatusCode::UNAVAILABLE);
  EXPECT_EQ(Multiply(server_->unix_channel()).error_code(),
            StatusCode::UNAUTHENTICATED)
      << "but a Unix socket is plaintext";
  EXPECT_TRUE(Multiply(server_->unix_channel(), token_).ok());
}

TEST_F(TlsTest, ACertificateSaysWhoCalls) {
  Start();
  const Certificate by_name = ClientOf({.name = "worker"});
  EXPECT_TRUE(Multiply(Connect(&by_name)).ok());
  const Certificate by_uri =
      ClientOf({.name = "any", .alternatives = "URI:spiffe://worker"});
  EXPECT_TRUE(Multiply(Connect(&by_uri)).ok());
  const Certificate stranger = ClientOf({.name = "stranger"});
  EXPECT_EQ(Error(Connect(&stranger)),
            "the client certificate stands for no principal of this daemon");
  EXPECT_TRUE(Multiply(Connect(&stranger), token_).ok()) << "a token counts";
  EXPECT_THAT(Error(Connect()), HasSubstr("credentials are missing"));
}

TEST_F(TlsTest, ACertificateThatIsNotToBeTrustedIsNobodys) {
  Start();
  constexpr char kText[] = "the client certificate is not to be trusted: ";
  const absl::Time now = absl::Now();
  const Certificate expired = ClientOf({.name = "worker",
                                        .from = now - absl::Hours(2),
                                        .until = now - absl::Seconds(2)});
  EXPECT_EQ(Error(Connect(&expired)),
            absl::StrCat(kText, "certificate has expired"));
  const Certificate early = ClientOf({.name = "worker",
                                      .from = now + absl::Hours(1),
                                      .until = now + absl::Hours(2)});
  EXPECT_EQ(Error(Connect(&early)),
            absl::StrCat(kText, "certificate is not yet valid"));
  // Its authority has the name of the right one, and another key.
  const Certificate wrong = ClientOf({.name = "worker", .authority = &others_});
  EXPECT_THAT(Error(Connect(&wrong)), HasSubstr(kText));
  const Certificate own({.name = "worker"});
  EXPECT_EQ(Error(Connect(&own)),
            absl::StrCat(kText, "self-signed certificate"));
  const Certificate server = ClientOf({.name = "worker", .for_servers = true});
  EXPECT_EQ(Error(Connect(&server)),
            absl::StrCat(kText, "unsuitable certificate purpose"));
}

TEST_F(TlsTest, AnAuthorityThatGoesTakesItsCertificatesAlong) {
  Start();
  const Certificate old = ClientOf({.name = "worker"});
  const Certificate next = ClientOf({.name = "worker", .authority = &others_});
  const auto by_old = Connect(&old), by_next = Connect(&next);
  ASSERT_TRUE(Multiply(by_old).ok());
  EXPECT_EQ(Multiply(by_next).error_code(), StatusCode::UNAUTHENTICATED);
  // Both for a while, then the new one alone; on the same connections.
  files_.Write("ca", clients_.Pem() + others_.Pem());
  EXPECT_TRUE(Eventually([&] { return Multiply(by_next).ok(); }));
  EXPECT_TRUE(Multiply(by_old).ok());
  files_.Write("ca", others_.Pem());
  EXPECT_TRUE(Eventually([&] { return !Multiply(by_old).ok(); }));
  EXPECT_THAT(Error(by_old), HasSubstr("not to be trusted"));
  EXPECT_TRUE(Multiply(by_next).ok());
  EXPECT_THAT(Error(Connect(&old)), HasSubstr("not to be trusted"));
}

TEST_F(TlsTest, ACertificateEndsWhileItsConnectionLives) {
  Start();
  const Certificate brief =
      ClientOf({.name = "worker", .until = absl::Now() + absl::Seconds(3)});
  const auto channel = Connect(&brief);
  ASSERT_TRUE(Multiply(channel).ok());
  EXPECT_TRUE(Eventually([&] { return !Multiply(channel).ok(); }));
  EXPECT_THAT(Error(channel), HasSubstr("certificate has expired"));
}

TEST_F(TlsTest, TheDaemonsCertificateIsReplacedWithoutAnEnd) {
  Start();
  const auto before = Connect();
  ASSERT_TRUE(Multiply(before, token_).ok());
  const Certificate next_authority({.name = "next", .is_authority = true});
  const Certificate next({.name = "two",
                          .alternatives = "DNS:localhost,IP:127.0.0.1",
                          .authority = &next_authority});
  files_.Write("cert", next.Pem());
  files_.Write("key", next.KeyPem());
  EXPECT_TRUE(Eventually(
      [&] { return Multiply(Connect(nullptr, next_authority), token_).ok(); }));
  EXPECT_TRUE(Multiply(before, token_).ok()) << "it goes on";
  EXPECT_EQ(Multiply(Connect(), token_).error_code(), StatusCode::UNAVAILABLE);
}

TEST_F(TlsTest, ThoseWhoNeverFinishAHandshakeAreInNobodysWay) {
  Start();
  const auto before = Connect();
  ASSERT_TRUE(Multiply(before, token_).ok());
  std::vector<int> silent;
  for (int i = 0; i < 600; ++i) {
    silent.push_back(Dial());
    // A third says nothing, a third begins, a third talks nonsense.
    if (i % 3 == 1) send(silent[i], "\x16\x03\x01", 3, MSG_NOSIGNAL);
    if (i % 3 == 2) send(silent[i], "GET /\r\n\r\n", 9, MSG_NOSIGNAL);
  }
  EXPECT_TRUE(Multiply(before, token_).ok());
  for (int i = 0; i < 5; ++i) {
    const grpc::Status status = Multiply(Connect(), token_);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  for (const int fd : silent) close(fd);
}

TEST_F(TlsTest, DrainsAndEndsWithHandshakesUnderWay) {
  Start();
  const auto channel = Connect();
  ASSERT_TRUE(Multiply(channel, token_).ok());
  const int fd = Dial();
  EXPECT_TRUE(server_->server().Drain());
  EXPECT_EQ(Multiply(channel, token_).error_code(), StatusCode::UNAVAILABLE);
  server_.reset();
  char byte;
  EXPECT_LE(recv(fd, &byte, 1, 0), 0);
  close(fd);
}

}  // namespace
}  // namespace gemmd
