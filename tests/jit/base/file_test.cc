// Files as others leave them, and disks that are full.
#include "jit/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

class FileTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }

  const TemporaryDirectory directory_;
  const UniqueFd folder_{
      open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
};

TEST_F(FileTest, MayBeAsLongAsItsLimitAndNoLonger) {
  std::ofstream(Path("file")) << "12345";
  EXPECT_EQ(ReadFileAt(folder_.get(), "file", 5).value_or(""), "12345");
  EXPECT_EQ(ReadFile(Path("file"), 5).value_or(""), "12345");
  EXPECT_TRUE(absl::IsDataLoss(ReadFileAt(folder_.get(), "file", 4).status()));
  EXPECT_TRUE(absl::IsDataLoss(ReadFile(Path("file"), 4).status()));
  EXPECT_EQ(ReadStartAt(folder_.get(), "file", 4).value_or(""), "1234");
}

// The first of its writes is then a short one, without an error.
TEST_F(FileTest, WhatWasWrittenInPartIsAnError) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit half = {4096, 4096};
    setrlimit(RLIMIT_FSIZE, &half);
    const UniqueFd file(
        open(Path("file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const bool whole = WriteAll(file.get(), std::string(8192, 'x')).ok();
    _exit(whole ? 1 : 0);
  }
  int code = -1;
  ASSERT_EQ(waitpid(child, &code, 0), child);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(ReadFile(Path("file"), 8192).value_or(""), std::string(4096, 'x'));
}

// Clients are told so of the process's own files.
TEST_F(FileTest, WhatTheSystemRefusesIsNotWhatAClientLacks) {
  for (const int error : {EROFS, EACCES, EPERM, ENOTDIR, EIO}) {
    EXPECT_TRUE(absl::IsInternal(ErrnoStatus(error, "write"))) << error;
  }
  EXPECT_TRUE(absl::IsNotFound(ErrnoStatus(ENOENT, "read")));
  EXPECT_TRUE(absl::IsResourceExhausted(ErrnoStatus(ENOSPC, "write")));
}

TEST_F(FileTest, ATerminalHasAnEndAndOtherDevicesMayHaveNone) {
  const UniqueFd zero(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckEnds(zero.get())));
  EXPECT_TRUE(CheckEnds(folder_.get()).ok());
  const UniqueFd terminal(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  EXPECT_TRUE(!terminal.ok() || CheckEnds(terminal.get()).ok());
}

}  // namespace
}  // namespace gemmd::jit
