// Bytes through TLS, in whatever pieces and however full the line is.
#include "service/tls/session.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "jit/base/file.h"
#include "tests/service/tls/certificates.h"
#include "tests/service/tls/tls_client.h"

namespace gemmd::tls {
namespace {

using testing::Certificate;
using testing::TlsClient;

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    signal(SIGPIPE, SIG_IGN);
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    const int small = 20'000;  // Little more than a record.
    for (const int fd : fds) {
      setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    }
    server_fd_ = jit::UniqueFd(fds[0]);
    client_fd_ = jit::UniqueFd(fds[1]);
    SetBlocking(server_fd_.get(), false);
    const Certificate own({.name = "server"});
    context_ = Context::Create({.certificates = own.Pem(),
                                .key = own.KeyPem(),
                                .client_authorities = {}})
                   .value();
    session_ = std::make_unique<Session>(context_, server_fd_.get());
  }

  static void SetBlocking(int fd, bool blocking) {
    const int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
  }
  void Wait(short events) const {
    pollfd one = {.fd = server_fd_.get(), .events = events, .revents = 0};
    poll(&one, 1, 10'000);
  }
  Session::Progress Handshake() {
    Session::Progress progress;
    while ((progress = session_->Handshake()) ==
               Session::Progress::kWantsRead ||
           progress == Session::Progress::kWantsWrite) {
      Wait(progress == Session::Progress::kWantsRead ? POLLIN : POLLOUT);
    }
    return progress;
  }
  void Connect(TlsClient& client) {
    std::thread other([&] { EXPECT_TRUE(client.Connect()); });
    EXPECT_EQ(Handshake(), Session::Progress::kDone) << session_->failure();
    other.join();
  }
  // All of `bytes`, in parts of random sizes.
  bool Send(const std::string& bytes, std::mt19937& random) {
    size_t at = 0;
    while (at < bytes.size()) {
      std::vector<iovec> parts;
      for (size_t from = at; from < bytes.size() && parts.size() < 50;) {
        const size_t size = std::min<size_t>(
            bytes.size() - from, 1 + random() % (random() % 2 ? 60'000 : 300));
        parts.push_back({const_cast<char*>(bytes.data()) + from, size});
        from += size;
      }
      const msghdr message = {.msg_iov = parts.data(),
                              .msg_iovlen = parts.size()};
      // As gRPC does: the same again, from where it came to.
      ssize_t sent;
      while ((sent = session_->Send(message)) < 0 && errno == EAGAIN) {
        Wait(POLLOUT);
      }
      if (sent <= 0) return false;
      at += static_cast<size_t>(sent);
    }
    return true;
  }
  // Until there are `size`, or the end.
  std::string Receive(size_t size, std::mt19937& random) {
    std::string bytes;
    while (bytes.size() < size) {
      std::string first(1 + random() % 40'000, '\0'), second(5000, '\0');
      iovec parts[] = {{first.data(), first.size()},
                       {second.data(), second.size()}};
      msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
      const ssize_t got = session_->Receive(message);
      if (got < 0 && errno == EAGAIN) {
        Wait(POLLIN);
        continue;
      }
      if (got <= 0) break;
      bytes += (first + second).substr(0, static_cast<size_t>(got));
    }
    return bytes;
  }

  jit::UniqueFd server_fd_;
  jit::UniqueFd client_fd_;
  std::shared_ptr<const Context> context_;
  std::unique_ptr<Session> session_;
};

std::string RandomBytes(size_t size, std::mt19937& random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST_F(SessionTest, BytesArriveAsTheyWereBothWaysAtOnce) {
  std::mt19937 random(7);
  TlsClient client(client_fd_.get());
  Connect(client);
  EXPECT_EQ(session_->peer(), nullptr);
  const std::string down = RandomBytes(3'000'000, random);
  const std::string up = RandomBytes(3'000'000, random);
  std::thread sender([&] {
    std::mt19937 other(8);
    EXPECT_TRUE(Send(down, other));
  });
  std::string received;
  std::thread receiver([&] {
    std::mt19937 other(9);
    received = Receive(up.size(), other);
  });
  // One thread, as a client's SSL wants it: a little up, a little down.
  SetBlocking(client_fd_.get(), false);
  SSL_set_mode(client.ssl(), SSL_MODE_ENABLE_PARTIAL_WRITE);
  std::string arrived;
  size_t gone = 0;
  while (arrived.size() < down.size() || gone < up.size()) {
    bool moved = false;
    if (gone < up.size()) {
      const int sent = SSL_write(client.ssl(), up.data() + gone,
                                 static_cast<int>(up.size() - gone));
      if (sent > 0) gone += static_cast<size_t>(sent);
      moved = sent > 0;
    }
    const std::string some = client.Read(50'000);
    arrived += some;
    if (!moved && some.empty()) {
      pollfd one = {.fd = client_fd_.get(), .events = POLLIN, .revents = 0};
      ASSERT_GE(poll(&one, 1, 10), 0);
    }
  }
  sender.join();
  receiver.join();
  EXPECT_TRUE(arrived == down);
  EXPECT_TRUE(received == up);
}

TEST_F(SessionTest, NothingIsReadBeyondTheHandshake) {
  TlsClient client(client_fd_.get());
  std::thread other([&] {
    EXPECT_TRUE(client.Connect());
    EXPECT_TRUE(client.Write("hello"));
  });
  Wait(POLLIN);
  ASSERT_EQ(Handshake(), Session::Progress::kDone);
  other.join();
  int bytes = 0;
  ASSERT_EQ(ioctl(server_fd_.get(), FIONREAD, &bytes), 0);
  EXPECT_GT(bytes, 5) << "or gRPC would wait for it";
  std::mt19937 random(1);
  EXPECT_EQ(Receive(5, random), "hello");
}

TEST_F(SessionTest, TheEndIsTheEnd) {
  TlsClient client(client_fd_.get());
  Connect(client);
  ASSERT_TRUE(client.Write("last"));
  SSL_shutdown(client.ssl());
  std::mt19937 random(1);
  EXPECT_EQ(Receive(100, random), "last");
  session_->Close();
  EXPECT_EQ(client.Read(1), "");
  EXPECT_EQ(SSL_get_shutdown(client.ssl()) & SSL_RECEIVED_SHUTDOWN,
            SSL_RECEIVED_SHUTDOWN)
      << "the client is told";
}

TEST_F(SessionTest, WhoVanishesEndsToo) {
  TlsClient client(client_fd_.get());
  Connect(client);
  client_fd_ = jit::UniqueFd();
  std::mt19937 random(1);
  EXPECT_EQ(Receive(100, random), "");
  EXPECT_FALSE(Send(std::string(100'000, 'x'), random));
}

TEST_F(SessionTest, ChangedBytesEndIt) {
  TlsClient client(client_fd_.get());
  Connect(client);
  const std::string record =
      std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');
  ASSERT_EQ(write(client_fd_.get(), record.data(), record.size()),
            static_cast<ssize_t>(record.size()));
  char byte;
  iovec part = {&byte, 1};
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  EXPECT_EQ(session_->Receive(message), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_F(SessionTest, SpeaksNothingOld) {
  TlsClient client(client_fd_.get(), {.protocols = std::string("\x02h2", 3),
                                      .most_version = TLS1_1_VERSION});
  std::thread other([&] { EXPECT_FALSE(client.Connect()); });
  EXPECT_EQ(Handshake(), Session::Progress::kFailed);
  EXPECT_THAT(session_->failure(), ::testing::HasSubstr("protocol"));
  session_.reset();
  server_fd_ = jit::UniqueFd();
  other.join();
}

TEST_F(SessionTest, SpeaksTls12) {
  TlsClient client(client_fd_.get(), {.protocols = std::string("\x02h2", 3),
                                      .most_version = TLS1_2_VERSION});
  Connect(client);
  ASSERT_TRUE(client.Write("hello"));
  std::mt19937 random(1);
  EXPECT_EQ(Receive(5, random), "hello");
}

// No secrets that outlive a connection, and no client that comes back without
// its certificate; and handshakes are work that a client begins but once.
TEST_F(SessionTest, OfTls12OnlyWhatIsSafe) {
  TlsClient client(client_fd_.get(), {.protocols = std::string("\x02h2", 3),
                                      .most_version = TLS1_2_VERSION});
  Connect(client);
  EXPECT_THAT(SSL_get_cipher(client.ssl()), ::testing::StartsWith("ECDHE-"));
  EXPECT_EQ(SSL_SESSION_has_ticket(SSL_get_session(client.ssl())), 0);
  std::thread other([&] {
    std::mt19937 random(1);
    EXPECT_EQ(Receive(5, random), "");
    server_fd_ = jit::UniqueFd();
  });
  EXPECT_EQ(SSL_renegotiate(client.ssl()), 1);
  EXPECT_NE(SSL_do_handshake(client.ssl()), 1);
  client_fd_ = jit::UniqueFd();
  other.join();
}

TEST_F(SessionTest, WeakCiphersOfTls12AreRefused) {
  TlsClient client(client_fd_.get(), {.protocols = std::string("\x02h2", 3),
                                      .most_version = TLS1_2_VERSION});
  ASSERT_EQ(SSL_set_cipher_list(client.ssl(), "ECDHE-ECDSA-AES128-SHA"), 1);
  std::thread other([&] { EXPECT_FALSE(client.Connect()); });
  EXPECT_EQ(Handshake(), Session::Progress::kFailed);
  session_.reset();
  server_fd_ = jit::UniqueFd();
  other.join();
}

TEST_F(SessionTest, SpeaksHttp2Alone) {
  for (const std::string& protocols :
       {std::string(), std::string("\x08http/1.1", 9)}) {
    TlsClient client(client_fd_.get(),
                     {.protocols = protocols, .most_version = TLS1_3_VERSION});
    std::thread other([&] { client.Connect(); });
    EXPECT_EQ(Handshake(), Session::Progress::kFailed) << protocols;
    session_.reset();
    server_fd_ = jit::UniqueFd();
    other.join();
    // For the next one.
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    server_fd_ = jit::UniqueFd(fds[0]);
    client_fd_ = jit::UniqueFd(fds[1]);
    SetBlocking(server_fd_.get(), false);
    session_ = std::make_unique<Session>(context_, server_fd_.get());
  }
}

// Each is work, and none is a byte that flow control sees.
TEST_F(SessionTest, NewKeysWithoutEndEndIt) {
  TlsClient client(client_fd_.get());
  Connect(client);
  std::thread reader([&] {
    std::mt19937 random(1);
    EXPECT_EQ(Receive(1, random), "");
  });
  const int updates = client.UpdateKeys(100'000);
  EXPECT_GE(updates, 1000);
  EXPECT_LT(updates, 3000);
  reader.join();
}

}  // namespace
}  // namespace gemmd::tls
