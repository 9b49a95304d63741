// The file of recorded problems survives crashes of its writer.
#include "service/daemon/problem_log.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"

namespace gemmd::daemon {
namespace {

constexpr char kNoted[] = "bf16 TT 7 7 7 order=row\n";

class ProblemLogTest : public testing::Test {
 protected:
  void SetUp() override { std::remove(path_.c_str()); }

  // What the file holds after a daemon that found `before` noted a problem.
  std::string After(const std::string& before) {
    if (!before.empty()) std::ofstream(path_) << before;
    auto log = ProblemLog::Open(path_);
    EXPECT_TRUE(log.ok()) << log.status();
    jit::Problem problem;
    problem.m = problem.n = problem.k = 7;
    for (int i = 0; i < 3; ++i) (*log)->Note(problem);
    return ReadOnceItEndsWith(kNoted);
  }

  // It is written behind the caller's back.
  std::string ReadOnceItEndsWith(const std::string& line) const {
    std::string text = Read();
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!absl::EndsWith(text, line) && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(5));
      text = Read();
    }
    return text;
  }

  std::string Read() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string path_ =
      testing::TempDir() + "/" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ProblemLogTest, HoldsEachShapeOnce) {
  EXPECT_EQ(After(""), kNoted);
  EXPECT_EQ(After(kNoted), kNoted);
}

TEST_F(ProblemLogTest, ATornLastLineCostsThatLine) {
  EXPECT_EQ(After("bf16 TN 1 2 3\nbf16 TN 4"),
            std::string("bf16 TN 1 2 3\n") + kNoted);
  EXPECT_EQ(After("bf16"), kNoted);
}

// A file that had grown, and whose last bytes had not reached the disk.
TEST_F(ProblemLogTest, ZerosThatAPowerCutLeftAreCutOff) {
  const std::string before = "bf16 TN 1 2 3\nbf16 TN 1 1 1 ; 4*9  # there\n";
  const std::string all = before + kNoted;
  for (const size_t zeros : {1, 4096, 300000}) {
    const std::string tail(zeros, '\0');
    EXPECT_EQ(After(before + tail), all);
    EXPECT_EQ(After(before + "bf16 TN 4" + tail), all);
    EXPECT_EQ(After(before + "e4m" + tail), all);
    EXPECT_EQ(After(before + kNoted + tail), all);
    EXPECT_EQ(After(tail), kNoted);
    EXPECT_EQ(After("bf16 TN 1 2 3" + tail),
              std::string("bf16 TN 1 2 3\n") + kNoted);
  }
}

// Another version may have written it.
TEST_F(ProblemLogTest, ALineThatCannotBeReadStays) {
  const std::string before = "bf16 TN 1 2 3\nbf99 XX 1 2 3\n# by hand\n";
  EXPECT_EQ(After(before), before + kNoted);
  EXPECT_EQ(After(before + "bf16 TN 4"), before + kNoted);
  EXPECT_EQ(After("# by hand\n\n"), std::string("# by hand\n\n") + kNoted);
  const std::string first = "bf99 XX 1 2 3\nbf16 TN 1 2 3\n";
  EXPECT_EQ(After(first), first + kNoted);
}

// Else somebody waits in vain for the shapes of a new service.
TEST_F(ProblemLogTest, SaysOnceThatItIsFull) {
  {
    std::ofstream file(path_);
    file << "# by hand\n\n";
    for (int m = 1; m < 65536; ++m) {
      file << "bf16 TT " << m << " 9 9 order=row\n";
    }
  }
  const auto log = ProblemLog::Open(path_);
  ASSERT_TRUE(log.ok()) << log.status();
  testing::internal::CaptureStdout();  // Where lines go without a log.
  (*log)->Note({.m = 7, .n = 7, .k = 7});
  (*log)->Note({.m = 7, .n = 9, .k = 9});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  testing::internal::CaptureStdout();
  for (int m = 1; m < 9; ++m) (*log)->Note({.m = m, .n = 8, .k = 8});
  const std::string said = testing::internal::GetCapturedStdout();
  const size_t at = said.find("event=problem_log_full");
  EXPECT_NE(at, said.npos) << said;
  EXPECT_EQ(said.find("problem_log_full", at + 10), said.npos) << said;
  EXPECT_TRUE(absl::StrContains(said, "lines=65536")) << said;
  EXPECT_TRUE(absl::EndsWith(ReadOnceItEndsWith(kNoted), kNoted));
}

// Clients choose the lines, and those of groups are long: else the next start
// would refuse what this daemon wrote.
TEST_F(ProblemLogTest, ADaemonWritesNoMoreThanItReads) {
  const std::string noted = "bf16 TN 1 2 3\n";
  std::ofstream(path_) << noted << "#"
                       << std::string((64 << 20) - noted.size() - 40, 'x')
                       << "\n";
  {
    const auto log = ProblemLog::Open(path_);
    ASSERT_TRUE(log.ok()) << log.status();
    testing::internal::CaptureStdout();
    (*log)->Note({.m = 7, .n = 7, .k = 7});
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
    testing::internal::CaptureStdout();
    (*log)->Note({.m = 7, .n = 9, .k = 9});
    EXPECT_TRUE(absl::StrContains(testing::internal::GetCapturedStdout(),
                                  "event=problem_log_full"));
    ReadOnceItEndsWith(kNoted);
    absl::SleepFor(absl::Milliseconds(50));  // For more, were there any.
  }
  EXPECT_TRUE(absl::EndsWith(Read(), kNoted));
  const auto again = ProblemLog::Open(path_);
  EXPECT_TRUE(again.ok()) << again.status();
}

// A limit of files fills up as a disk does: in the middle of a line.
TEST_F(ProblemLogTest, AFullDiskLosesLinesAndNothingElse) {
  signal(SIGXFSZ, SIG_IGN);
  const auto log = ProblemLog::Open(path_);
  ASSERT_TRUE(log.ok()) << log.status();
  rlimit usual;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  rlimit full = usual;
  full.rlim_cur = 9;
  // A pipe, which has no such limit, hears what the log says of it.
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const int output = dup(STDOUT_FILENO);
  dup2(pipe_ends[1], STDOUT_FILENO);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  (*log)->Note({.m = 1, .n = 2, .k = 3});
  std::string said(1024, '\0');
  said.resize(std::max<ssize_t>(0, read(pipe_ends[0], said.data(), 1024)));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
  dup2(output, STDOUT_FILENO);
  for (const int end : {output, pipe_ends[0], pipe_ends[1]}) close(end);
  EXPECT_TRUE(absl::StrContains(said, "event=problem_log_lost")) << said;
  EXPECT_TRUE(absl::StrContains(said, "File too large")) << said;
  (*log)->Note({.m = 7, .n = 7, .k = 7});
  EXPECT_EQ(ReadOnceItEndsWith(kNoted), kNoted);
}

TEST_F(ProblemLogTest, HoldsOneGroupForEachKernelOfGroups) {
  const std::string known = "bf16 TT 1 2 3 order=row ; 1*9  # there\n";
  std::ofstream(path_) << known;
  const auto log = ProblemLog::Open(path_);
  ASSERT_TRUE(log.ok()) << log.status();
  const std::vector<jit::Problem> group(9, {.m = 4, .n = 2, .k = 3});
  (*log)->Note(group, "there");
  (*log)->Note(group, "new");
  (*log)->Note(group, "new");
  const std::string noted = known + "bf16 TT 4 2 3 order=row ; 4*9  # new\n";
  EXPECT_EQ(ReadOnceItEndsWith("# new\n"), noted);
  EXPECT_EQ(After(""), noted + kNoted);
}

// A daemon that finds nothing else there starts again.
TEST_F(ProblemLogTest, AGroupMayHaveBatchesOfDifferentSizes) {
  {
    const auto log = ProblemLog::Open(path_);
    ASSERT_TRUE(log.ok()) << log.status();
    jit::Problem many = {.m = 1, .n = 1, .k = 8};
    many.batch = 1 << 20;
    const std::vector<jit::Problem> group = {many,
                                             {.m = 4096, .n = 512, .k = 8}};
    (*log)->Note(group, "kernel");
    ReadOnceItEndsWith("kernel\n");
  }
  const auto again = ProblemLog::Open(path_);
  EXPECT_TRUE(again.ok()) << again.status() << Read();
}

// Neither is waited for, nor read without end.
TEST_F(ProblemLogTest, OnlyARegularFileWillDo) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  for (const std::string& path : {path_, std::string("/dev/zero")}) {
    const auto log = ProblemLog::Open(path);
    EXPECT_TRUE(absl::IsInvalidArgument(log.status())) << path;
    EXPECT_TRUE(absl::StrContains(log.status().message(), path));
  }
}

// Of a file that was named by mistake not a byte is lost.
TEST_F(ProblemLogTest, AFileOfSomethingElseIsRefusedAndLeftAlone) {
  for (const std::string& other :
       {std::string("\x7f"
                    "ELF\1\2\n\0\n",
                    10),
        std::string("bf16 TN 1 2 3\n\0\0\nbf16 TN 1 2 3\n", 31),
        std::string("bf16 TN 1\0\0 2 3\n", 17), std::string("\0\n", 2),
        std::string("hello world\nfoo\n"),
        std::string("# notes\nhello world\nbf16 TN"),
        std::string("Dear reader,\nit"), std::string("Dear reader\0\0", 13),
        std::string("bf16 ") + std::string(70000, '1'),
        std::string(70000, 'a')}) {
    std::ofstream(path_, std::ios::trunc | std::ios::binary) << other;
    const auto log = ProblemLog::Open(path_);
    EXPECT_TRUE(absl::IsInvalidArgument(log.status())) << log.status();
    EXPECT_TRUE(absl::StrContains(log.status().message(),
                                  path_ + ": it is no list of problems"))
        << log.status();
    EXPECT_EQ(Read(), other);
  }
}

TEST_F(ProblemLogTest, TheLineThatIsNoTextIsNamed) {
  std::ofstream(path_) << "bf16 TN 1 2 3\n" << std::string(3, '\0') << "\n\n";
  const auto log = ProblemLog::Open(path_);
  EXPECT_TRUE(absl::StrContains(log.status().message(),
                                "line 2 has bytes of no text; allowed: one"))
      << log.status();
}

TEST_F(ProblemLogTest, AHugeFileIsRefusedUnread) {
  std::ofstream(path_) << "bf16 TN 1 2 3\n";
  ASSERT_EQ(truncate(path_.c_str(), off_t{20} << 30), 0);
  const auto log = ProblemLog::Open(path_);
  EXPECT_TRUE(absl::IsInvalidArgument(log.status())) << log.status();
  EXPECT_TRUE(absl::StrContains(
      log.status().message(),
      path_ + ": it has 21474836480 bytes, more than a list of problems; "
              "allowed: 0 to 67108864"))
      << log.status();
}

TEST_F(ProblemLogTest, ALastLineWithoutItsEndIsKept) {
  EXPECT_EQ(After("bf16 TN 1 2 3"), std::string("bf16 TN 1 2 3\n") + kNoted);
}

}  // namespace
}  // namespace gemmd::daemon
