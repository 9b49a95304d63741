// Lines as they come to standard error: through a thread, a limit and a pipe.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "jit/base/file.h"
#include "service/log/log.h"

namespace gemmd::log {
namespace {

constexpr absl::Duration kLong = absl::Seconds(30);

// Standard error is a pipe, also of what the daemon's log writes to it.
class OutputTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { Initialize(); }

  OutputTest() : stderr_(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) {
    int fds[2];
    EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
    pipe_ = jit::UniqueFd(fds[0]);
    dup2(fds[1], STDERR_FILENO);
    close(fds[1]);
  }
  ~OutputTest() override { dup2(stderr_.get(), STDERR_FILENO); }

  // Until a line has `last` in it.
  std::string ReadTo(absl::string_view last) {
    std::string text;
    char bytes[4096];
    while (!absl::StrContains(text, last) || !absl::EndsWith(text, "\n")) {
      const ssize_t size = read(pipe_.get(), bytes, sizeof bytes);
      if (size <= 0) break;
      text.append(bytes, static_cast<size_t>(size));
    }
    return text;
  }

  const jit::UniqueFd stderr_;
  jit::UniqueFd pipe_;
};

TEST_F(OutputTest, ALineHasItsLevelAndIsWrittenWhenItIsFlushed) {
  Write(Level::kInfo, "one", {{"n", 1}});
  Write(Level::kWarning, "two");
  Write(Level::kError, "three");
  Flush(kLong);
  fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
  const std::string text = ReadTo("event=three");
  EXPECT_TRUE(absl::StrContains(text, "Z level=info event=one n=1\n")) << text;
  EXPECT_TRUE(absl::StrContains(text, "Z level=warning event=two\n")) << text;
  EXPECT_TRUE(absl::StrContains(text, "Z level=error event=three\n")) << text;
}

TEST_F(OutputTest, LinesBeyondABurstAreLeftOutAndCounted) {
  for (int i = 0; i < 200; ++i) Write(Level::kInfo, "burst", {{"i", i}});
  absl::SleepFor(absl::Milliseconds(300));
  Write(Level::kInfo, "burst", {{"i", "last"}});
  const std::string text = ReadTo("i=last");
  EXPECT_TRUE(absl::StrContains(text, " i=49\n")) << text;
  EXPECT_FALSE(absl::StrContains(text, " i=199")) << text;
  EXPECT_TRUE(absl::StrContains(text, " i=last suppressed=")) << text;
}

// Whoever made it non-blocking: a program that shares it. A pipe takes a part
// of what is longer than 4 KiB.
TEST_F(OutputTest, ALineThatDoesNotFitGoesOnWhereItWas) {
  fcntl(STDERR_FILENO, F_SETFL, O_WRONLY | O_NONBLOCK);
  fcntl(pipe_.get(), F_SETPIPE_SZ, 4096);
  const std::string v(2000, 'v'), w(2000, 'w'), x(2000, 'x');
  for (int i = 0; i < 20; ++i) {
    Write(Level::kInfo, "wide", {{"i", i}, {"v", v}, {"w", w}, {"x", x}});
  }
  absl::SleepFor(absl::Milliseconds(100));
  const std::string text = ReadTo("i=19 ");
  for (int i = 0; i < 20; ++i) {
    const std::string line =
        absl::StrCat("i=", i, " v=", v, " w=", w, " x=", x, "\n");
    EXPECT_TRUE(absl::StrContains(text, line)) << i;
  }
}

// All that is written is there, or is counted once.
TEST_F(OutputTest, LinesThatNobodyTakesAreDroppedAndCounted) {
  fcntl(pipe_.get(), F_SETPIPE_SZ, 4096);
  constexpr int kEvents = 100, kLines = 40;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kEvents; ++i) {
      const std::string event = absl::StrCat("event", round, "-", i);
      for (int j = 0; j < kLines; ++j) Write(Level::kInfo, event);
    }
    Write(Level::kInfo, "last", {{"round", round}});
    int64_t written = 0, dropped = 0;
    for (const absl::string_view line :
         absl::StrSplit(ReadTo(absl::StrCat("round=", round)), '\n')) {
      constexpr absl::string_view kDropped = "event=log_lines_dropped count=";
      const size_t at = line.find(kDropped);
      int64_t count = 0;
      if (at == line.npos) {
        written += absl::StrContains(line, "event=event");
      } else {
        EXPECT_TRUE(
            absl::SimpleAtoi(line.substr(at + kDropped.size()), &count));
        dropped += count;
      }
    }
    EXPECT_GT(dropped, 0);
    EXPECT_EQ(written + dropped, kEvents * kLines);
  }
}

}  // namespace
}  // namespace gemmd::log
