// Handshakes that never end, and many at once.
#include "service/tls/handshaker.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/service/gate.h"
#include "tests/service/tls/certificates.h"
#include "tests/service/tls/tls_client.h"

namespace gemmd::tls {
namespace {

using testing::Certificate;
using testing::Eventually;
using testing::TlsClient;

class HandshakerTest : public ::testing::Test {
 protected:
  void Start(int64_t max_pending, absl::Duration timeout) {
    signal(SIGPIPE, SIG_IGN);
    const Certificate own({.name = "server"});
    context_ = Context::Create({.certificates = own.Pem(),
                                .key = own.KeyPem(),
                                .client_authorities = {}})
                   .value();
    handshaker_ = std::make_unique<Handshaker>(Handshaker::Options{
        .max_pending = max_pending,
        .timeout = timeout,
        .done =
            [this](jit::UniqueFd fd, std::unique_ptr<Session> session) {
              std::lock_guard lock(mutex_);
              fds_.push_back(std::move(fd));
              sessions_.push_back(std::move(session));
            },
        .failed =
            [this](int, const std::string& why) {
              std::lock_guard lock(mutex_);
              ++failures_[why];
            }});
  }
  // The client's end of a new connection.
  jit::UniqueFd Connect() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    handshaker_->Add(jit::UniqueFd(fds[0]), context_);
    return jit::UniqueFd(fds[1]);
  }
  // The same over TCP, from an address of this machine.
  jit::UniqueFd ConnectFrom(const char* address) {
    const jit::UniqueFd listening(socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(listen(listening.get(), 1), 0);
    sockaddr_in to = {};
    socklen_t size = sizeof to;
    getsockname(listening.get(), reinterpret_cast<sockaddr*>(&to), &size);
    sockaddr_in from = {.sin_family = AF_INET};
    inet_pton(AF_INET, address, &from.sin_addr);
    jit::UniqueFd client(socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(bind(client.get(), reinterpret_cast<sockaddr*>(&from), size), 0);
    EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&to), size), 0);
    jit::UniqueFd accepted(
        accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK));
    handshaker_->Add(std::move(accepted), context_);
    return client;
  }
  size_t done() {
    std::lock_guard lock(mutex_);
    return sessions_.size();
  }
  int failures(const std::string& why) {
    std::lock_guard lock(mutex_);
    return failures_[why];
  }

  std::shared_ptr<const Context> context_;
  std::mutex mutex_;
  std::vector<jit::UniqueFd> fds_;
  std::vector<std::unique_ptr<Session>> sessions_;  // Before their fds go.
  std::map<std::string, int> failures_;
  std::unique_ptr<Handshaker> handshaker_;
};

TEST_F(HandshakerTest, ShakesHands) {
  Start(10, absl::Minutes(1));
  for (size_t i = 1; i <= 20; ++i) {
    const jit::UniqueFd fd = Connect();
    TlsClient client(fd.get());
    EXPECT_TRUE(client.Connect());
    EXPECT_TRUE(Eventually([&] { return done() == i; }));
  }
}

TEST_F(HandshakerTest, WhoTakesTooLongIsClosed) {
  Start(10, absl::Milliseconds(50));
  const jit::UniqueFd fd = Connect();
  char byte;
  EXPECT_EQ(read(fd.get(), &byte, 1), 0) << "the end, after a while";
  EXPECT_TRUE(
      Eventually([&] { return failures("the handshake took too long") == 1; }));
}

TEST_F(HandshakerTest, OfTooManyTheOldestIsClosed) {
  Start(10, absl::Minutes(1));
  std::vector<jit::UniqueFd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(Connect());
  EXPECT_TRUE(Eventually(
      [&] { return failures("too many handshakes are under way") == 90; }));
  const jit::UniqueFd fd = Connect();
  TlsClient client(fd.get());
  EXPECT_TRUE(client.Connect()) << "who is quick gets through";
  char byte;
  EXPECT_EQ(read(silent[0].get(), &byte, 1), 0);
  EXPECT_EQ(recv(silent[99].get(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST_F(HandshakerTest, OfTooManyWhoHasBegunStays) {
  Start(10, absl::Minutes(1));
  const jit::UniqueFd begun = Connect();
  ASSERT_EQ(write(begun.get(), "\x16\x03\x01", 3), 3);
  std::vector<jit::UniqueFd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(Connect());
  EXPECT_TRUE(Eventually(
      [&] { return failures("too many handshakes are under way") == 91; }));
  char byte;
  EXPECT_EQ(recv(begun.get(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST_F(HandshakerTest, OfTooManyOneOfTheAddressThatHasMostIsClosed) {
  Start(10, absl::Minutes(1));
  const jit::UniqueFd distant = ConnectFrom("127.0.0.2");
  std::vector<jit::UniqueFd> near;
  for (int i = 0; i < 100; ++i) near.push_back(ConnectFrom("127.0.0.1"));
  EXPECT_TRUE(Eventually(
      [&] { return failures("too many handshakes are under way") == 91; }));
  char byte;
  EXPECT_EQ(recv(distant.get(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST_F(HandshakerTest, NonsenseIsClosed) {
  Start(10, absl::Minutes(1));
  const jit::UniqueFd fd = Connect();
  ASSERT_EQ(write(fd.get(), "GET / HTTP/1.1\r\n\r\n", 18), 18);
  std::string rest;
  char byte;
  while (read(fd.get(), &byte, 1) == 1) rest += byte;
  EXPECT_LT(rest.size(), 50);
  EXPECT_EQ(done(), 0);
}

TEST_F(HandshakerTest, EndsWithThoseThatAreUnderWay) {
  Start(10, absl::Minutes(1));
  const jit::UniqueFd fd = Connect();
  handshaker_.reset();
  char byte;
  EXPECT_EQ(read(fd.get(), &byte, 1), 0);
}

}  // namespace
}  // namespace gemmd::tls
