// The bar fits its terminal, tells how long it takes, and what an interrupt
// leaves.
#include "clients/warmup/progress.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
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

TEST(ProgressTest, AnInterruptLeavesASummary) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    std::FILE* const out = fdopen(ends[1], "w");
    Progress progress(out, 9);
    progress.Step("one");
    progress.Step("two");
    raise(SIGINT);
    // The signal ends it; under a sanitizer only when it sleeps.
    for (int i = 0; i < 60; ++i) sleep(1);
    _exit(0);
  }
  close(ends[1]);
  const std::string text = ReadAll(ends[0]);
  close(ends[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  EXPECT_TRUE(absl::StrContains(text, "interrupted after 0:0")) << text;
  EXPECT_TRUE(absl::StrContains(text, "2 of 9 done")) << text;
}

}  // namespace
}  // namespace gemmd::warmup
