// What a daemon that has just started tells of itself by options, and those
// that it cannot start with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gemmd/v1/server.grpc.pb.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/eventually.h"

namespace gemmd {
namespace {

using testing::DaemonProcess;
using testing::Eventually;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr char kNoNvrtc[] = "--nvrtc=none";

std::string Read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(DaemonStartTest, EachAddressIsALineOfThePortFile) {
  const testing::TemporaryFolder folder;
  const std::string port_file = folder.path() + "/port";
  const std::string socket = absl::StrCat("unix:", folder.path(), "/s");
  DaemonProcess daemon(
      {"--device=host", kNoNvrtc, "--port-file=" + port_file,
       absl::StrCat("--listen=", socket, ",127.0.0.1:0,[::1]:0")});
  ASSERT_TRUE(Eventually([&] { return !Read(port_file).empty(); }))
      << daemon.Log();
  EXPECT_THAT(Read(port_file),
              MatchesRegex(absl::StrCat(
                  socket, "\n127.0.0.1:[0-9]+\n\\[::1\\]:[0-9]+\n")));
  EXPECT_TRUE(Eventually(
      [&] { return absl::StrContains(daemon.Log(), "event=serving"); }));
  EXPECT_THAT(daemon.Log(), HasSubstr(absl::StrCat(socket, ",127.0.0.1:")));
}

TEST(DaemonStartTest, WhoeverReadsThePortFileNeedsIt) {
  DaemonProcess daemon(
      {"--device=host", kNoNvrtc, "--port-file=/nonexistent/port"});
  EXPECT_EQ(daemon.Wait(), 1);
  EXPECT_THAT(daemon.Log(), HasSubstr("--port-file: "));
}

TEST(DaemonStartTest, MetricsAreForThisMachineUnlessItIsSaid) {
  const std::string listen = "--metrics-listen=0.0.0.0:0";
  {
    DaemonProcess daemon({"--device=host", kNoNvrtc, listen});
    EXPECT_EQ(daemon.Wait(), 2);
    EXPECT_THAT(daemon.Log(), HasSubstr("which other machines can reach"));
  }
  DaemonProcess daemon(
      {"--device=host", kNoNvrtc, listen, "--allow-plaintext-nonloopback"});
  ASSERT_NE(daemon.Connect(), nullptr);
  EXPECT_THAT(daemon.Log(), HasSubstr("event=monitoring address=0.0.0.0:"));
}

TEST(DaemonStartTest, TemplatesThatAreGivenAreRead) {
  DaemonProcess daemon(
      {"--device=host", kNoNvrtc, "--template-dir=/nonexistent"});
  EXPECT_EQ(daemon.Wait(), 2);
  EXPECT_THAT(daemon.Log(),
              HasSubstr("--template-dir: /nonexistent: no template"));
}

TEST(DaemonStartTest, ClientsAreToldItsLimits) {
  DaemonProcess daemon({"--device=host", kNoNvrtc, "--cache-dir=", "--queue=7",
                        "--max-tensor-bytes=1MiB"});
  const auto channel = daemon.Connect();
  ASSERT_NE(channel, nullptr);
  grpc::ClientContext context;
  v1::ServerInfo info;
  ASSERT_TRUE(v1::ServerService::NewStub(channel)
                  ->GetServerInfo(&context, {}, &info)
                  .ok());
  EXPECT_EQ(info.limits().max_queue(), 7);
  EXPECT_EQ(info.limits().max_tensor_bytes(), 1 << 20);
  EXPECT_EQ(info.compiler(), "absent");
  EXPECT_EQ(info.template_digest().size(), 64u);
  EXPECT_THAT(info.missing(),
              ::testing::ElementsAre(HasSubstr("no cache directory"),
                                     HasSubstr("NVRTC was not found")));
}

}  // namespace
}  // namespace gemmd
