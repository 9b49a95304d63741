// Daemons that are told to listen on one Unix socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

// A socket that lingers in another one, which nobody who closes that can end,
// and then more descriptors than the daemon may have.
TEST_F(UnixSocketTest, WhoPassesManyDescriptorsTakesNoneOfOthers) {
  DaemonProcess daemon(Flags());
  ASSERT_NE(daemon.Connect(), nullptr);
  const auto connect = [this] { return testing::Giver(path_ + ".memory"); };
  const auto open_files = [&daemon] {
    const std::filesystem::directory_iterator files(
        absl::StrCat("/proc/", daemon.pid(), "/fd"));
    return std::distance(begin(files), end(files));
  };
  const int64_t before = open_files();
  std::optional<testing::LingeringSocket> lingering(std::in_place);
  connect().Send("m", {lingering->Wrap().get()});
  const testing::GivenMemory memory(4096);
  std::vector<testing::Giver> many;
  for (int i = 0; i < 40; ++i) {
    many.push_back(connect());
    many.back().Send("m", std::vector<int>(253, STDIN_FILENO));
  }
  EXPECT_TRUE(testing::Eventually([&daemon] {
    return absl::StrContains(daemon.Log(), "event=descriptors_not_closed");
  })) << daemon.Log();
  EXPECT_TRUE(Answers());
  EXPECT_LT(open_files() - before, 1500) << "of 10,120 that were passed";
  lingering.reset();
  // As soon as what waited is closed.
  EXPECT_TRUE(testing::Eventually(
      [&] { return connect().Give(memory).size() == 32u; }));
  EXPECT_TRUE(testing::Eventually([&] { return open_files() <= before + 2; }))
      << open_files() << " instead of " << before;
  many.clear();
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
