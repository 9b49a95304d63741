// The bar fits its terminal, tells how long it takes, and what an interrupt
// leaves.
#include "clients/warmup/progress.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace gemmd::warmup {
namespace {

constexpr absl::Duration kMinute = absl::Minutes(1);

TEST(ProgressTest, SaysHowLongItWillTake) {
  EXPECT_EQ(ProgressLine(1, 4, kMinute, "gemm", 80),
            "[######..................] 1/4, 3:00 left: gemm");
  EXPECT_EQ(ProgressLine(0, 4, kMinute, "gemm", 80),
            "[........................] 0/4: gemm");
  EXPECT_EQ(ProgressLine(4, 4, kMinute, "gemm", 80),
            "[########################] 4/4: gemm");
  EXPECT_EQ(ProgressLine(0, 0, kMinute, "", 80),
            "[........................] 0/0: ");
}

// What comes out of `fd` until its other end is closed.
std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

TEST(ProgressTest, FitsTheTerminal) {
  for (const unsigned short columns : {40, 80}) {
    winsize size = {.ws_row = 24, .ws_col = columns};
    int terminal = -1, end = -1;
    ASSERT_EQ(openpty(&terminal, &end, nullptr, nullptr, &size), 0);
    std::FILE* const out = fdopen(end, "w");
    {
      Progress progress(out, 100);
      for (int i = 0; i < 5; ++i) progress.Step(std::string(200, 'x'));
    }
    std::fclose(out);
    const std::string text = ReadAll(terminal);
    close(terminal);
    for (absl::string_view line : absl::StrSplit(text, '\r')) {
      absl::ConsumePrefix(&line, "\033[K");
      EXPECT_LT(line.size(), columns) << line;
      EXPECT_FALSE(absl::StrContains(line, "\n")) << line;
    }
    EXPECT_TRUE(absl::StrContains(text, "5/100")) << text;
  }
}

// What a step is called may come from a file of strangers, or a daemon.
TEST(ProgressTest, NoStepWritesWhatATerminalObeys) {
  const auto shown = [](int read_end, int write_end) {
    std::FILE* const out = fdopen(write_end, "w");
    {
      Progress progress(out, 2);
      progress.Step("a\033[31mb\rc");
      progress.Note("d\033[2Je");
    }
    std::fclose(out);
    const std::string text = ReadAll(read_end);
    close(read_end);
    return text;
  };
  int pipe_ends[2], terminal = -1, end = -1;
  ASSERT_EQ(pipe(pipe_ends), 0);
  EXPECT_EQ(shown(pipe_ends[0], pipe_ends[1]),
            "[1/2] a\\x1b[31mb\\rc\nd\\x1b[2Je\n");
  ASSERT_EQ(openpty(&terminal, &end, nullptr, nullptr, nullptr), 0);
  const std::string drawn = shown(terminal, end);
  EXPECT_TRUE(absl::StrContains(drawn, "a\\x1b[31mb\\rc")) << drawn;
  EXPECT_TRUE(absl::StrContains(drawn, "d\\x1b[2Je")) << drawn;
}

TEST(ProgressTest, AnInterruptLeavesASummary) {
  // In a program of its own: a fork of one that has had threads may have none.
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto interrupted = [] {
    Progress progress(stderr, 9);
    progress.Step("one");
    progress.Step("two");
    raise(SIGINT);
    // The signal ends it; under a sanitizer only when it sleeps.
    for (int i = 0; i < 60; ++i) sleep(1);
    _exit(0);
  };
  EXPECT_EXIT(interrupted(), testing::KilledBySignal(SIGINT),
              "interrupted after 0:0.: 2 of 9 done");
}

}  // namespace
}  // namespace gemmd::warmup
