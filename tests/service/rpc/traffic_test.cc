#include "service/rpc/traffic.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

#include "jit/base/file.h"

namespace gemmd::rpc {
namespace {

class Counted final : public Traffic {
 public:
  void Allow(int64_t received) { Traffic::Allow(received); }
  void Look(absl::Span<const char> bytes) override {
    seen.assign(bytes.data(), bytes.size());
    if (seen == dislike) MakeDeaf();
  }
  int overruns = 0;
  std::string seen;
  std::string dislike;

 private:
  void Overrun() override {
    ++overruns;
    MakeDeaf();
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
  traffic.Allow(1000);
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
  traffic.Allow(1000);
  StartCounting(here_.get(), traffic);
  EXPECT_EQ(send(there_.get(), "some bytes", 10, 0), 10);
  EXPECT_EQ(Receive(here_.get()), 10);
  EXPECT_EQ(traffic.seen, "some bytes");
  traffic.dislike = "bad";
  EXPECT_EQ(send(there_.get(), "bad", 3, 0), 3);
  EXPECT_EQ(Receive(here_.get()), -1);
  EXPECT_EQ(errno, ECONNRESET);
  StopCounting(here_.get());
}

TEST_F(TrafficTest, OneThatSendsTooMuchIsNotListenedTo) {
  Counted traffic;
  traffic.Allow(15);
  StartCounting(here_.get(), traffic);
  EXPECT_EQ(Send(there_.get(), 15), 15);
  EXPECT_EQ(Receive(here_.get()), 15);
  EXPECT_EQ(traffic.overruns, 0);
  EXPECT_EQ(Send(there_.get(), 1), 1);
  EXPECT_EQ(Receive(here_.get()), 1);
  EXPECT_EQ(traffic.overruns, 1);
  EXPECT_EQ(Send(there_.get(), 1), 1);
  EXPECT_EQ(Receive(here_.get()), -1);
  EXPECT_EQ(errno, ECONNRESET);
  StopCounting(here_.get());
}

}  // namespace
}  // namespace gemmd::rpc
