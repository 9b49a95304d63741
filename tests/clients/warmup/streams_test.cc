// gemm-warmup among pipes: bundles that come and go through them, and outputs
// that are full or closed.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "jit/cache/disk_store.h"
#include "tests/clients/warmup/run_warmup.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::warmup {
namespace {

namespace fs = std::filesystem;

class StreamsTest : public testing::Test {
 protected:
  StreamsTest() {
    jit::DiskStore store({.directory = directory_.path() + "/cache"});
    EXPECT_TRUE(store.Store(jit::FakeKernel("one")).ok());
    EXPECT_TRUE(store.Store(jit::FakeKernel("two")).ok());
  }

  // A shell's line, in which W is the program and D a folder. Both streams.
  Outcome Shell(const std::string& line) {
    return WarmupShell(absl::StrReplaceAll(
        line,
        {{"W ", GEMMD_TEST_WARMUP " "}, {"D/", directory_.path() + "/"}}));
  }

  const jit::TemporaryDirectory directory_;
};

TEST_F(StreamsTest, ABundleGoesThroughAPipe) {
  const Outcome outcome =
      Shell("W export --cache-dir D/cache - | W import --cache-dir D/other -");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "2 kernels: 2 imported"))
      << outcome.output;
  EXPECT_EQ(Shell("W diff D/cache D/other").output, "");
}

TEST_F(StreamsTest, ABundleIsReadFromWhatTheShellOpened) {
  ASSERT_EQ(Shell("W export --cache-dir D/cache D/bundle").code, 0);
  for (const std::string line :
       {"cat D/bundle | W import --cache-dir D/a /dev/stdin",
        "W import --cache-dir D/b - < D/bundle"}) {
    const Outcome outcome = Shell(line);
    EXPECT_EQ(outcome.code, 0) << line << ": " << outcome.output;
  }
}

TEST_F(StreamsTest, AnExportReplacesNothingButFiles) {
  const Outcome outcome = Shell(
      "mkfifo D/pipe; cat D/pipe > D/copy & "
      "W export --cache-dir D/cache D/pipe; code=$?; wait; exit $code");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(fs::is_fifo(directory_.path() + "/pipe"));
  EXPECT_EQ(Shell("W import --cache-dir D/other D/copy").code, 0);
}

TEST_F(StreamsTest, WhatDoesNotArriveIsAFailure) {
  ASSERT_EQ(Shell("echo bf16 TN 64 64 64 > D/problems").code, 0);
  for (const std::string& command : std::vector<std::string>{
           "list --cache-dir D/cache", "stats --cache-dir D/cache",
           "show --cache-dir D/cache " + jit::FakeKernel("one").key,
           "check --cache-dir D/cache D/problems", "--help"}) {
    const Outcome full = Shell("W " + command + " > /dev/full");
    EXPECT_NE(full.code, 0) << command;
    EXPECT_TRUE(absl::StrContains(full.output, "No space left"))
        << command << ": " << full.output;
    EXPECT_NE(Shell("W " + command + " >&-").code, 0) << command;
  }
  const Outcome full = Shell("W export --cache-dir D/cache - > /dev/full");
  EXPECT_EQ(full.code, 1);
  EXPECT_TRUE(absl::StrContains(full.output, "No space left")) << full.output;
}

TEST_F(StreamsTest, WhatIsWrongIsSaidOnStandardError) {
  const Outcome outcome = Shell(
      "touch D/file; echo bf16 TN 64 64 64 | W compile --cache-dir "
      "D/file --nvrtc " GEMMD_TEST_NVRTC " - > D/out");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(absl::StrContains(outcome.output, "cache directory"))
      << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "Not a directory"))
      << outcome.output;
}

TEST_F(StreamsTest, ABundleThatIsNoneIsNamed) {
  const Outcome outcome =
      Shell("echo x > D/none; W import --cache-dir D/other D/none");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(absl::StrContains(outcome.output, "/none: bundle cannot be"))
      << outcome.output;
}

// Without a standard output the file would be that, and the summary in it.
TEST_F(StreamsTest, NothingIsPrintedIntoABundle) {
  EXPECT_NE(Shell("W export --cache-dir D/cache D/bundle <&- >&-").code, 0);
  const Outcome outcome = Shell("W import --cache-dir D/other D/bundle");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
}

TEST_F(StreamsTest, AReaderThatHasSeenEnoughIsNoTrouble) {
  const Outcome outcome = Shell("W list --cache-dir D/cache | head -n 1");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(absl::StartsWith(outcome.output, "KEY")) << outcome.output;
}

}  // namespace
}  // namespace gemmd::warmup
