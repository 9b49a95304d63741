#include "service/rpc/socket_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

namespace gemmd::rpc {
namespace {

using ::testing::HasSubstr;

class SocketLockTest : public testing::Test {
 protected:
  SocketLockTest() { EXPECT_NE(mkdtemp(folder_), nullptr); }
  ~SocketLockTest() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return std::string(folder_) + "/socket"; }

 private:
  char folder_[32] = "/tmp/gemmd_test_XXXXXX";
};

TEST_F(SocketLockTest, IsHeldByOneAtATime) {
  {
    const auto first = SocketLock::Take(path());
    ASSERT_TRUE(first.ok()) << first.status();
    const auto second = SocketLock::Take(path());
    EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(second.status().message(), HasSubstr("another process"));
    EXPECT_TRUE(SocketLock::Take(path() + "2").ok());
  }
  EXPECT_TRUE(SocketLock::Take(path()).ok());
}

TEST_F(SocketLockTest, LeavesNothingBehind) {
  { EXPECT_TRUE(SocketLock::Take(path()).ok()); }
  EXPECT_FALSE(std::filesystem::exists(path() + ".lock"));
}

// Somebody cleaned up under the first one.
TEST_F(SocketLockTest, LeavesTheFileOfItsSuccessor) {
  std::optional<SocketLock> first;
  {
    auto lock = SocketLock::Take(path());
    ASSERT_TRUE(lock.ok());
    first.emplace(*std::move(lock));
  }
  std::filesystem::remove(path() + ".lock");
  const auto second = SocketLock::Take(path());
  ASSERT_TRUE(second.ok()) << second.status();
  first.reset();
  EXPECT_EQ(SocketLock::Take(path()).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(SocketLockTest, ADeadHolderReleasesIt) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = SocketLock::Take(path());
    if (write(ready[1], lock.ok() ? "y" : "n", 1) != 1) _exit(1);
    pause();
  }
  char answer;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_FALSE(SocketLock::Take(path()).ok());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(SocketLock::Take(path()).ok());
}

TEST_F(SocketLockTest, FollowsNoLink) {
  std::ofstream(path() + ".target") << "precious";
  std::filesystem::create_symlink(path() + ".target", path() + ".lock");
  EXPECT_FALSE(SocketLock::Take(path()).ok());
}

TEST_F(SocketLockTest, MovesWithItsFile) {
  std::optional<SocketLock> moved;
  {
    auto lock = SocketLock::Take(path());
    ASSERT_TRUE(lock.ok());
    moved.emplace(*std::move(lock));
  }
  EXPECT_FALSE(SocketLock::Take(path()).ok());
  moved.reset();
  EXPECT_TRUE(SocketLock::Take(path()).ok());
}

}  // namespace
}  // namespace gemmd::rpc
