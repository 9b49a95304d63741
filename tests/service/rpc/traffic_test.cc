#include "service/rpc/traffic.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

#include "absl/time/clock.h"
#include "jit/base/file.h"
#include "tests/service/rpc/lingering_socket.h"

namespace gemmd::rpc {
namespace {

class Counted final : public Traffic {
 public:
  std::string seen;
  std::string seen_sent;
  std::string dislike;

 private:
  void LookAtReceived(absl::Span<const char> bytes) override {
    seen.append(bytes.data(), bytes.size());
    if (seen == dislike) MakeDeaf();
  }
  void LookAtSent(absl::Span<const char> bytes) override {
    seen_sent.append(bytes.data(), bytes.size());
  }
};

class TrafficTest : public ::testing::Test {
 protected:
  TrafficTest() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    here_ = jit::UniqueFd(fds[0]);
    there_ = jit::UniqueFd(fds[1]);
  }

  static ssize_t Send(int fd, size_t size) {
    iovec part = {.iov_base = bytes_, .iov_len = size};
    const msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return sendmsg(fd, &message, 0);
  }
  static ssize_t Receive(int fd) {
    iovec part = {.iov_base = bytes_, .iov_len = sizeof bytes_};
    msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return recvmsg(fd, &message, MSG_DONTWAIT);
  }

  static inline char bytes_[1000];
  jit::UniqueFd here_;
  jit::UniqueFd there_;
};

TEST_F(TrafficTest, CountsWhatPassesUntilItIsStopped) {
  Counted traffic;
  StartCounting(here_.get(), traffic);
  EXPECT_EQ(Send(here_.get(), 10), 10);
  EXPECT_EQ(Send(there_.get(), 20), 20);
  EXPECT_EQ(Receive(here_.get()), 20);
  EXPECT_EQ(Receive(here_.get()), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(traffic.sent(), 10);
  EXPECT_EQ(traffic.received(), 20);
  StopCounting(here_.get());
  EXPECT_EQ(Send(here_.get(), 10), 10);
  EXPECT_EQ(traffic.sent(), 10);
}

TEST_F(TrafficTest, LooksAtWhatArrivesBeforeAnybodyElse) {
  Counted traffic;
  StartCounting(here_.get(), traffic);
  EXPECT_EQ(send(there_.get(), "some bytes", 10, 0), 10);
  EXPECT_EQ(Receive(here_.get()), 10);
  EXPECT_EQ(traffic.seen, "some bytes");
  traffic.dislike = "some bytes, and bad ones";
  EXPECT_EQ(send(there_.get(), ", and bad ones", 14, 0), 14);
  EXPECT_EQ(Receive(here_.get()), -1);
  EXPECT_EQ(errno, ECONNRESET);
  // What comes later neither.
  EXPECT_EQ(send(there_.get(), "good", 4, 0), 4);
  EXPECT_EQ(Receive(here_.get()), -1);
  EXPECT_EQ(errno, ECONNRESET);
  StopCounting(here_.get());
}

// The kernel would close it where it is received, for as long as that takes.
TEST_F(TrafficTest, WhoPassesDescriptorsIsNotListenedTo) {
  Counted traffic;
  StartCounting(here_.get(), traffic);
  const absl::Time start = absl::Now();
  testing::LingeringSocket lingering;
  ASSERT_TRUE(lingering.Pass(there_.get()));
  EXPECT_EQ(Receive(here_.get()), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_TRUE(traffic.deaf());
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  StopCounting(here_.get());
}

TEST_F(TrafficTest, WhileTooManyAreNotClosedDescriptorsStayWhereTheyAre) {
  const testing::ClosingHeldUp held;
  Counted traffic;
  StartCounting(here_.get(), traffic);
  EXPECT_EQ(send(there_.get(), "some bytes", 10, 0), 10);
  EXPECT_EQ(Receive(here_.get()), 10);
  EXPECT_EQ(traffic.seen, "some bytes");
  EXPECT_EQ(Receive(here_.get()), -1);
  EXPECT_EQ(errno, EAGAIN);
  testing::LingeringSocket lingering;
  EXPECT_EQ(send(there_.get(), "more", 4, 0), 4);
  ASSERT_TRUE(lingering.Pass(there_.get()));
  EXPECT_EQ(Receive(here_.get()), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_TRUE(traffic.deaf());
  EXPECT_EQ(WaitingToBeClosed(), kMostWaiting);
  StopCounting(here_.get());
  DropUnread(here_.get());
}

TEST_F(TrafficTest, LooksAtWhatTheSocketHasTaken) {
  Counted traffic;
  StartCounting(here_.get(), traffic);
  const int size = 4096;  // Less than is sent.
  ASSERT_EQ(setsockopt(here_.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof size),
            0);
  std::string some(100'000, 's');
  std::string more(300'000, 'm');
  iovec parts[] = {{.iov_base = some.data(), .iov_len = some.size()},
                   {.iov_base = more.data(), .iov_len = more.size()}};
  const msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  std::string expected;
  for (ssize_t sent = 0; sent >= 0;) {
    sent = sendmsg(here_.get(), &message, MSG_DONTWAIT);
    if (sent > 0) expected += (some + more).substr(0, sent);
  }
  EXPECT_LT(expected.size(), some.size() + more.size());
  EXPECT_EQ(traffic.seen_sent, expected);
  StopCounting(here_.get());
}

}  // namespace
}  // namespace gemmd::rpc
