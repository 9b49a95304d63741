#include "jit/base/socket_io.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include "jit/base/file.h"
#include "jit/base/steady_time.h"

namespace gemmd::jit {
namespace {

class SocketIoTest : public testing::Test {
 protected:
  SocketIoTest() {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    ours_ = UniqueFd(sockets[0]);
    theirs_ = UniqueFd(sockets[1]);
  }

  static absl::Time Soon() { return SteadyNow() + absl::Seconds(60); }

  UniqueFd ours_, theirs_;
};

TEST_F(SocketIoTest, MoreThanASocketHoldsArrives) {
  std::string sent(4 << 20, '\0');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i / 251);
  std::thread sender([&] {
    EXPECT_TRUE(SendExactly(theirs_.get(), Soon(), sent).ok());
    theirs_.Reset();
  });
  std::string received(sent.size(), '\0');
  EXPECT_TRUE(
      ReceiveExactly(ours_.get(), Soon(), received.data(), received.size())
          .ok());
  sender.join();
  EXPECT_TRUE(received == sent);
}

// A signal would end this process.
TEST_F(SocketIoTest, AnotherSideThatIsGoneIsAnError) {
  theirs_.Reset();
  char byte = 0;
  EXPECT_TRUE(
      absl::IsUnavailable(ReceiveExactly(ours_.get(), Soon(), &byte, 1)));
  EXPECT_TRUE(absl::IsUnavailable(SendExactly(ours_.get(), Soon(), "bytes")));
}

TEST_F(SocketIoTest, ASilentSideIsWaitedForUntilTheDeadline) {
  constexpr absl::Duration kPause = absl::Milliseconds(300);
  const absl::Time start = SteadyNow();
  char byte = 0;
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      ReceiveExactly(ours_.get(), start + kPause, &byte, 1)));
  EXPECT_GE(SteadyNow() - start, kPause);
  // One that takes nothing, too.
  const std::string much(4 << 20, 'x');
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      SendExactly(ours_.get(), SteadyNow() + kPause, much)));
}

}  // namespace
}  // namespace gemmd::jit
