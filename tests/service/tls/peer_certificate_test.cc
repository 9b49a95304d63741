// Who a client's certificate says that it is, and for how long that holds.
#include "service/tls/peer_certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <signal.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "jit/base/file.h"
#include "service/tls/session.h"
#include "tests/service/tls/certificates.h"
#include "tests/service/tls/tls_client.h"

namespace gemmd::tls {
namespace {

using testing::Certificate;
using testing::TlsClient;

UniqueBio BytesOf(const std::string& pem) {
  return UniqueBio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}
UniqueX509 Parse(const Certificate& certificate) {
  return UniqueX509(PEM_read_bio_X509(BytesOf(certificate.Pem()).get(), nullptr,
                                      nullptr, nullptr));
}

class PeerCertificateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    ASSERT_EQ(Show({&client_, &between_}), Session::Progress::kDone);
    ASSERT_NE(session_->peer(), nullptr);
  }

  // Shakes hands with a client who shows these: its own, and what is between
  // that and an authority.
  Session::Progress Show(const std::vector<const Certificate*>& chain) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    server_fd_ = jit::UniqueFd(fds[0]);
    client_fd_ = jit::UniqueFd(fds[1]);
    session_ = std::make_unique<Session>(context_, server_fd_.get());
    TlsClient client(client_fd_.get());
    const UniqueKey key(PEM_read_bio_PrivateKey(
        BytesOf(chain[0]->KeyPem()).get(), nullptr, nullptr, nullptr));
    EXPECT_EQ(SSL_use_certificate(client.ssl(), Parse(*chain[0]).get()), 1);
    EXPECT_EQ(SSL_use_PrivateKey(client.ssl(), key.get()), 1);
    for (size_t i = 1; i < chain.size(); ++i) {
      EXPECT_EQ(SSL_add1_chain_cert(client.ssl(), Parse(*chain[i]).get()), 1);
    }
    // Of TLS 1.3 it is through before the daemon has looked.
    std::thread other([&] { EXPECT_TRUE(client.Connect()); });
    const Session::Progress progress = session_->Handshake();
    other.join();
    return progress;
  }

  std::shared_ptr<const Context> ContextOf(const std::string& authorities) {
    return *Context::Create({.certificates = server_.Pem(),
                             .key = server_.KeyPem(),
                             .client_authorities = authorities});
  }
  absl::Status Check(const std::shared_ptr<const Context>& context,
                     absl::Time now) {
    return session_->peer()->Check(context, now);
  }

  const Certificate server_{{.name = "server"}};
  const Certificate authority_{{.name = "authority", .is_authority = true}};
  const Certificate between_{
      {.name = "between", .authority = &authority_, .is_authority = true}};
  const Certificate client_{{.name = "client", .authority = &between_}};
  const std::shared_ptr<const Context> context_ = ContextOf(authority_.Pem());
  const absl::Time now_ = absl::Now();
  jit::UniqueFd server_fd_, client_fd_;
  std::unique_ptr<Session> session_;
};

TEST_F(PeerCertificateTest, AnAuthorityVouchesThroughOthers) {
  EXPECT_TRUE(Check(context_, now_).ok()) << Check(context_, now_);
  EXPECT_THAT(session_->peer()->names(), ::testing::ElementsAre("CN:client"));
}

// Whatever it says would be kept for as long as the connection lasts.
TEST_F(PeerCertificateTest, OneWithTooManyNamesIsNotTaken) {
  const auto shows = [&](int names) {
    std::string alternatives = "DNS:a";
    for (int i = 1; i < names; ++i) alternatives += ",DNS:a";
    const Certificate many({.name = "many", .alternatives = alternatives});
    return Show({&many});
  };
  EXPECT_EQ(shows(1000), Session::Progress::kDone);
  EXPECT_EQ(shows(2000), Session::Progress::kFailed);
  EXPECT_NE(session_->failure(), "");
}

TEST_F(PeerCertificateTest, TooManyThatComeAlongAreNotTaken) {
  std::vector<const Certificate*> chain(20, &between_);
  chain[0] = &client_;
  EXPECT_EQ(Show(chain), Session::Progress::kDone);
  chain.resize(60, &between_);
  EXPECT_EQ(Show(chain), Session::Progress::kFailed);
}

TEST_F(PeerCertificateTest, ItHoldsWhileItIsValid) {
  EXPECT_TRUE(Check(context_, now_).ok());
  const absl::Status late = Check(context_, now_ + absl::Hours(2));
  EXPECT_TRUE(absl::IsUnauthenticated(late)) << late;
  EXPECT_TRUE(Check(context_, now_).ok()) << "the clock was set back";
}

// At once, however short ago it was judged by others.
TEST_F(PeerCertificateTest, OtherAuthoritiesJudgeAnew) {
  EXPECT_TRUE(Check(context_, now_).ok());
  const Certificate stranger({.name = "authority", .is_authority = true});
  EXPECT_TRUE(absl::IsUnauthenticated(Check(ContextOf(stranger.Pem()), now_)));
  EXPECT_TRUE(Check(context_, now_).ok());
  const absl::Status none = Check(ContextOf(""), now_);
  EXPECT_TRUE(absl::IsUnauthenticated(none)) << none;
  EXPECT_THAT(std::string(none.message()),
              ::testing::HasSubstr("not accepted"));
}

}  // namespace
}  // namespace gemmd::tls
