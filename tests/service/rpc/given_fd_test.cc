#include "service/rpc/given_fd.h"

#include <errno.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "tests/service/rpc/lingering_socket.h"

namespace gemmd::rpc {
namespace {

using testing::LingeringSocket;

constexpr absl::Duration kSoon = absl::Seconds(5);

class GivenFdTest : public ::testing::Test {
 protected:
  GivenFdTest() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    here_ = jit::UniqueFd(fds[0]);
    there_ = jit::UniqueFd(fds[1]);
  }

  const absl::Time start_ = absl::Now();
  LingeringSocket lingering_;
  jit::UniqueFd here_;
  jit::UniqueFd there_;
};

TEST_F(GivenFdTest, NobodyWaitsForItsClosing) {
  { const GivenFd given(lingering_.Take()); }
  EXPECT_LT(absl::Now() - start_, kSoon);
}

TEST_F(GivenFdTest, IsTakenIn) {
  ASSERT_TRUE(lingering_.Pass(there_.get()));
  char byte = 0;
  iovec part = {.iov_base = &byte, .iov_len = 1};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const GivenRoom room(message);
  ASSERT_EQ(recvmsg(here_.get(), &message, MSG_CMSG_CLOEXEC), 1);
  EXPECT_EQ(room.Take(message).size(), 1u);
  EXPECT_LT(absl::Now() - start_, kSoon);
}

TEST_F(GivenFdTest, WhatNobodyReadsIsThrownAway) {
  ASSERT_TRUE(lingering_.Pass(there_.get()));
  DropUnread(here_.get());
  here_.Reset();
  EXPECT_LT(absl::Now() - start_, kSoon);
}

// Of what comes by however many sockets, none more are taken in: each socket
// waits in their place.
TEST_F(GivenFdTest, WhileTooManyWaitNoneAreTakenIn) {
  const testing::ClosingHeldUp held;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(testing::LingeringSocket().Pass(there_.get()));
  }
  DropUnread(here_.get());
  here_.Reset();
  char byte;
  EXPECT_EQ(recv(there_.get(), &byte, 1, 0), 0) << "it has not ended";
  EXPECT_EQ(WaitingToBeClosed(), kMostWaiting + 1);
  int silent[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, silent), 0);
  const jit::UniqueFd nothing(silent[0]);
  const jit::UniqueFd unread(silent[1]);
  DropUnread(unread.get());
  EXPECT_EQ(WaitingToBeClosed(), kMostWaiting + 1) << "there was nothing in it";
  EXPECT_LT(absl::Now() - start_, kSoon);
}

TEST_F(GivenFdTest, MayComeByUnixSocketsAlone) {
  EXPECT_TRUE(MayBringGiven(here_.get()));
  const GivenFd tcp(lingering_.Take());
  EXPECT_FALSE(MayBringGiven(tcp.get()));
}

// By Linux alone that can.
TEST_F(GivenFdTest, IsRefusedWhereItMayBe) {
  RefuseGiven(here_.get());
  if (lingering_.Pass(there_.get())) {
    DropUnread(here_.get());
    GTEST_SKIP() << "this Linux cannot refuse descriptors";
  }
  EXPECT_EQ(errno, EPERM);
  EXPECT_FALSE(MayBringGiven(here_.get()));
}

}  // namespace
}  // namespace gemmd::rpc
