// What the programs and all their commands say of themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gemmd::cli {
namespace {

using ::testing::Contains;

std::vector<std::string> HelpLines(const std::string& command) {
  std::FILE* const pipe = popen(absl::StrCat(command, " --help").c_str(), "r");
  std::string text;
  char buffer[4096];
  for (size_t got; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    text.append(buffer, got);
  }
  EXPECT_EQ(pclose(pipe), 0) << command;
  return absl::StrSplit(text, '\n');
}

// Of `command` and those below it, whose names go to `seen`.
void ExpectThatHelpFits(const std::string& command,
                        std::vector<std::string>& seen) {
  constexpr size_t kColumns = 80;
  seen.push_back(command);
  std::vector<std::string> below;
  bool names = false;
  for (const std::string& line : HelpLines(command)) {
    EXPECT_LE(line.size(), kColumns) << command << ": " << line;
    names = line == "Subcommands:" || (names && !line.empty());
    // Further lines of a summary are indented more.
    if (names && absl::StartsWith(line, "  ") && line[2] != ' ') {
      below.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  for (const std::string& name : below) {
    ExpectThatHelpFits(absl::StrCat(command, " ", name), seen);
  }
}

TEST(HelpTest, FitsATerminal) {
  std::vector<std::string> seen;
  for (const char* program :
       {GEMMD_TEST_CTL, GEMMD_TEST_DAEMON, GEMMD_TEST_WARMUP}) {
    ExpectThatHelpFits(program, seen);
  }
  EXPECT_THAT(seen, Contains(GEMMD_TEST_CTL " tensor upload"));
  EXPECT_THAT(seen, Contains(GEMMD_TEST_WARMUP " tune"));
}

}  // namespace
}  // namespace gemmd::cli
