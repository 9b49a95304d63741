// Daemons that are told to listen on one Unix socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/test_server.h"
#include "tests/service/rpc/lingering_socket.h"
#include "tests/service/rpc/region/giver.h"

namespace gemmd {
namespace {

using testing::DaemonProcess;
using ::testing::HasSubstr;

class UnixSocketTest : public ::testing::Test {
 protected:
  std::vector<std::string> Flags() const {
    return {"--device=host", "--nvrtc=none", "--listen=unix:" + path_};
  }

  // Whether a daemon answers there.
  bool Answers() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(
        "unix:" + path_, grpc::InsecureChannelCredentials(), arguments);
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    v1::ServerInfo info;
    return v1::ServerService::NewStub(channel)
        ->GetServerInfo(&context, {}, &info)
        .ok();
  }

  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/socket";
};

TEST_F(UnixSocketTest, ASecondDaemonDoesNotTakeIt) {
  DaemonProcess first(Flags());
  ASSERT_NE(first.Connect(), nullptr);
  DaemonProcess second(Flags());
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.Log(), HasSubstr("cannot listen on"));
  EXPECT_TRUE(Answers());
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 0) << first.Log();
}

TEST_F(UnixSocketTest, OneThatADeadDaemonLeftIsReplaced) {
  {
    DaemonProcess killed(Flags());
    ASSERT_NE(killed.Connect(), nullptr);
    killed.Signal(SIGKILL);
    EXPECT_EQ(killed.Wait(), -SIGKILL);
  }
  ASSERT_TRUE(std::filesystem::exists(path_));
  DaemonProcess next(Flags());
  ASSERT_NE(next.Connect(), nullptr);
  EXPECT_TRUE(Answers());
}

// A descriptor that comes with bytes, and takes a minute to be closed: more of
// them than there are threads that could stand still for it.
TEST_F(UnixSocketTest, WhoPassesDescriptorsHoldsNobodyUp) {
  DaemonProcess daemon(Flags());
  ASSERT_NE(daemon.Connect(), nullptr);
  const absl::Time start = absl::Now();
  std::vector<testing::LingeringSocket> lingering(16);
  std::vector<testing::Giver> clients;
  for (testing::LingeringSocket& socket : lingering) {
    // Linux may refuse it.
    (void)socket.Pass(clients.emplace_back(path_).fd(), 'P');
  }
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(Answers());
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
}

TEST_F(UnixSocketTest, IsGoneWithItsDaemon) {
  DaemonProcess daemon(Flags());
  ASSERT_NE(daemon.Connect(), nullptr);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace gemmd
