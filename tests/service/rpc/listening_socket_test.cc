#include "service/rpc/listening_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

namespace gemmd::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class ListeningSocketTest : public ::testing::Test {
 protected:
  ListeningSocketTest() {
    char folder[] = "/tmp/gemmd_test_XXXXXX";
    EXPECT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  ~ListeningSocketTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(ListeningSocketTest, SaysWhichPortItGot) {
  const auto socket = ListeningSocket::Bind("127.0.0.1:0");
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_THAT(socket->address(), MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
}

TEST_F(ListeningSocketTest, SaysWhyItCannot) {
  const auto first = ListeningSocket::Bind("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = ListeningSocket::Bind(first->address());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr("Address already in use"));
  for (const char* bad : {"127.0.0.1", "127.0.0.1:99999", "127.0.0.1:x"}) {
    EXPECT_EQ(ListeningSocket::Bind(bad).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

// No host: those of IPv4 and of IPv6.
TEST_F(ListeningSocketTest, ListensAtAllAddressesOfANameOrAtNone) {
  const auto all = ListeningSocket::Bind(":0");
  ASSERT_TRUE(all.ok()) << all.status();
  const auto other = ListeningSocket::Bind("[::1]:0");
  if (!other.ok()) GTEST_SKIP() << "needs IPv6: " << other.status();
  EXPECT_EQ(all->fds().size(), 2u);
  const std::string port = other->address().substr(other->address().rfind(':'));
  const auto half = ListeningSocket::Bind(port);
  EXPECT_EQ(half.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(half.status().message(),
            "cannot listen on " + port + ": Address already in use");
}

TEST_F(ListeningSocketTest, TheFolderDecidesWhoConnectsToAUnixSocket) {
  const std::string path = folder_ + "/socket";
  for (const bool takes_descriptors : {false, true}) {
    const mode_t before = umask(077);
    const auto socket =
        ListeningSocket::Bind("unix:" + path, takes_descriptors);
    umask(before);
    ASSERT_TRUE(socket.ok()) << socket.status();
    struct stat status;
    ASSERT_EQ(lstat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0666u);
  }
}

TEST_F(ListeningSocketTest, DoesNotTakeAUnixSocketFromAnother) {
  const std::string address = "unix:" + folder_ + "/socket";
  const auto first = ListeningSocket::Bind(address);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(ListeningSocket::Bind(address).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ListeningSocketTest, ReplacesAUnixSocketThatNobodyListensOn) {
  const std::string path = folder_ + "/socket";
  {
    const jit::UniqueFd dead(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(name.sun_path, path.size());
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&name), sizeof name),
              0);
  }
  {
    const auto socket = ListeningSocket::Bind("unix:" + path);
    EXPECT_TRUE(socket.ok()) << socket.status();
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

// Somebody cleaned up under the first one.
TEST_F(ListeningSocketTest, LeavesTheUnixSocketOfItsSuccessor) {
  const std::string path = folder_ + "/socket";
  std::optional<ListeningSocket> first;
  {
    auto socket = ListeningSocket::Bind("unix:" + path);
    ASSERT_TRUE(socket.ok()) << socket.status();
    first.emplace(*std::move(socket));
  }
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".lock");
  {
    const auto second = ListeningSocket::Bind("unix:" + path);
    ASSERT_TRUE(second.ok()) << second.status();
    first.reset();
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_TRUE(std::filesystem::exists(path + ".lock"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ListeningSocketTest, SaysWhatIsThereInPlaceOfASocketAndLeavesIt) {
  const struct {
    std::string path, is_made_by, what;
  } cases[] = {{folder_ + "/file", "echo precious > ", "a file"},
               {folder_ + "/folder", "mkdir ", "a folder"},
               {folder_ + "/link", "ln -s nowhere ", "a link"},
               {folder_ + "/pipe", "mkfifo ", "a pipe or device"}};
  for (const auto& [path, is_made_by, what] : cases) {
    ASSERT_EQ(system((is_made_by + path).c_str()), 0);
    const absl::Status status = ListeningSocket::Bind("unix:" + path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.message(),
              "cannot listen on unix:" + path + ": there is " + what +
                  "; allowed: a path where nothing is, or a socket that nobody "
                  "serves");
    EXPECT_TRUE(std::filesystem::is_symlink(path) ||
                std::filesystem::exists(path));
    EXPECT_FALSE(std::filesystem::exists(path + ".lock"));
  }
}

}  // namespace
}  // namespace gemmd::rpc
