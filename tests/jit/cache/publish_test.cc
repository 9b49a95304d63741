// What publishing owes to a power cut and to other processes.
#include "jit/cache/publish.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "jit/base/steady_time.h"
#include "jit/cache/disk_store.h"
#include "tests/jit/fake_compiler.h"

namespace {

// What was flushed, in order: paths of files and folders.
std::vector<std::string>& Flushed() {
  static std::vector<std::string> flushed;
  return flushed;
}

}  // namespace

// In place of the one of the C library, for the code under test too.
extern "C" int fsync(int fd) {
  std::error_code error;
  Flushed().push_back(std::filesystem::read_symlink(
      "/proc/self/fd/" + std::to_string(fd), error));
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace gemmd::jit {
namespace {

namespace fs = std::filesystem;

TEST(PublishTest, TheBytesAreFlushedBeforeTheNameAndTheNameAtTheEnd) {
  const TemporaryDirectory directory;
  fs::create_directory(directory.path() + "/entries");
  fs::permissions(directory.path() + "/entries", fs::perms::owner_all);
  Flushed().clear();
  size_t flushed_before_rename = 0, flushed_after_rename = 0;
  const absl::Status status = PublishFile(
      directory.path(), "entries", "name", "bytes", [&](PublishStep step) {
        if (step == PublishStep::kBeforeRename) {
          flushed_before_rename = Flushed().size();
        }
        if (step == PublishStep::kAfterRename) {
          flushed_after_rename = Flushed().size();
        }
        return absl::OkStatus();
      });
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(flushed_before_rename, 1u);
  EXPECT_TRUE(absl::StrContains(Flushed()[0], "/temporary/")) << Flushed()[0];
  ASSERT_EQ(flushed_after_rename, 1u);
  ASSERT_EQ(Flushed().size(), 2u);
  EXPECT_EQ(Flushed()[1], fs::canonical(directory.path() + "/entries"));
}

// Where locks cannot be trusted, writers of one name meet.
TEST(PublishTest, TwoProcessesThatWriteOneNameDoNotMeet) {
  const TemporaryDirectory directory;
  int half_written[2], go_on[2];
  ASSERT_EQ(pipe(half_written), 0);
  ASSERT_EQ(pipe(go_on), 0);
  const pid_t child = fork();
  if (child == 0) {
    const absl::Status status =
        PublishFile(directory.path(), "entries", "name", "of the child",
                    [&](PublishStep step) {
                      char byte = 0;
                      if (step == PublishStep::kHalfWritten &&
                          (write(half_written[1], "x", 1) != 1 ||
                           read(go_on[0], &byte, 1) != 1)) {
                        return absl::UnavailableError("the parent is gone");
                      }
                      return absl::OkStatus();
                    });
    _exit(status.ok() ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(half_written[0], &byte, 1), 1);
  const absl::Status status =
      PublishFile(directory.path(), "entries", "name", "of the parent", {});
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(write(go_on[1], "x", 1), 1);
  int code = -1;
  ASSERT_EQ(waitpid(child, &code, 0), child);
  EXPECT_EQ(code, 0);
  std::string text;
  std::ifstream file(directory.path() + "/entries/name");
  std::getline(file, text);
  EXPECT_EQ(text, "of the child");
}

// In containers all daemons have the same number, and their first files, too.
TEST(PublishTest, AFileOfAnotherProcessOfTheSameNumberIsNoTrouble) {
  const TemporaryDirectory directory;
  const auto publish = [&](const std::string& bytes) {
    return PublishFile(directory.path(), "entries", "name", bytes, {});
  };
  ASSERT_TRUE(publish("first").ok());
  const auto left = [&](int i) {
    return absl::StrCat(directory.path(), "/temporary/name.", getpid(), ".", i);
  };
  for (int i = 0; i < 100; ++i) std::ofstream(left(i)) << "of another";
  const absl::Status status = publish("second");
  ASSERT_TRUE(status.ok()) << status;
  std::string text;
  std::ifstream file(directory.path() + "/entries/name");
  std::getline(file, text);
  EXPECT_EQ(text, "second");
  // Nobody else's to read, whatever the folder is.
  EXPECT_EQ(fs::status(directory.path() + "/entries/name").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(fs::exists(left(i))) << i;
}

TEST(PublishTest, AStoreHoldsTheDirectorysLockWhileItWrites) {
  const TemporaryDirectory directory;
  bool looked = false, was_free = true;
  DiskStore store({.directory = directory.path(), .at_step = [&](PublishStep) {
                     const UniqueFd lock(
                         open((directory.path() + "/lock").c_str(), O_RDWR));
                     looked = lock.ok();
                     was_free = flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
                     return absl::OkStatus();
                   }});
  ASSERT_TRUE(store.Store(FakeKernel("source")).ok());
  EXPECT_TRUE(looked);
  EXPECT_FALSE(was_free);
}

// It may have been stopped while it wrote.
TEST(PublishTest, AnotherProcessThatHoldsTheLockIsNotWaitedForForEver) {
  const TemporaryDirectory directory;
  const absl::StatusOr<UniqueFd> held = LockDirectory(directory.path());
  ASSERT_TRUE(held.ok()) << held.status();
  const absl::Time start = SteadyNow();
  const absl::Status status = LockDirectory(directory.path()).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_GE(SteadyNow() - start, absl::Seconds(10));
}

}  // namespace
}  // namespace gemmd::jit
