// Lines of groups: products that differ in nothing but their sizes.
#include "jit/problem/group_line.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "jit/problem/problem_line.h"

namespace gemmd::jit {
namespace {

std::vector<std::string> Lines(absl::Span<const Problem> problems) {
  std::vector<std::string> lines;
  for (const Problem& problem : problems) lines.push_back(ProblemLine(problem));
  return lines;
}

TEST(GroupLineTest, ASizeIsAnMOrAllThree) {
  const auto group =
      ParseGroupLine("bf16 TN 1 64 32 order=row ; 13+0*2 + 5x6x7*3  # three");
  ASSERT_TRUE(group.ok()) << group.status();
  const std::string empty = "bf16 TN 0 64 32 order=row";
  const std::string other = "bf16 TN 5 6 7 order=row";
  EXPECT_EQ(Lines(*group),
            (std::vector<std::string>{"bf16 TN 13 64 32 order=row", empty,
                                      empty, other, other, other}));
}

TEST(GroupLineTest, WritesWhatItReads) {
  for (const std::string line :
       {"bf16 TN 13 64 32 order=row ; 13+0*2+7", "s8 NT 3 4 64 ; 3",
        "f16 NN 1 2 3 bias=row ; 1*256",
        "u4-bf16 TN 5 7 96 group=32 zero_points ; 5+6",
        "e4m3 TN 8 8 8 ; 8x8x8+8x9x8*2", "e4m3 TN 8 8 8 ; 8x8x8+8x8x9",
        "bf16 TT 1 1 8 order=row batch=1048576 ; 1x1x8+4096x512x8 batch=1 "
        "broadcast=none",
        "bf16 TN 4 2 3 batch=3 broadcast=ab ; 4+4*2 batch=5 broadcast=a"}) {
    const auto group = ParseGroupLine(line);
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_EQ(GroupLine(*group), line);
  }
}

TEST(GroupLineTest, ListsHoldProblemsAndGroups) {
  const auto list = ParseProblemList(
      "# a list\nbf16 TN 1 2 3\n\nbf16 TN 1 2 3 ; 4+5\nf16 TN 1 2 3;6\n");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(Lines(list->problems), std::vector<std::string>{"bf16 TN 1 2 3"});
  ASSERT_EQ(list->groups.size(), 2u);
  EXPECT_EQ(GroupLine(list->groups[0]), "bf16 TN 4 2 3 ; 4+5");
  EXPECT_EQ(GroupLine(list->groups[1]), "f16 TN 6 2 3 ; 6");
}

TEST(GroupLineTest, WhatIsWrongIsNamedWithItsLine) {
  const auto expect = [](const std::string& line, const std::string& text) {
    const absl::Status wrong = ParseProblemList("\n" + line).status();
    EXPECT_TRUE(absl::StartsWith(wrong.message(), "line 2: ")) << wrong;
    EXPECT_TRUE(absl::StrContains(wrong.message(), text)) << wrong;
  };
  const std::string sizes =
      "; allowed: M, MxNxK, or either with *COUNT, and then batch=N or "
      "broadcast=a|b|ab|none where it is not the line's, joined by +";
  expect("bf16 TN 1 2 3 ;", "size is ''" + sizes);
  expect("bf16 TN 1 2 3 ; 4+", "size is ''" + sizes);
  expect("bf16 TN 1 2 3 ; 4x5", "size is '4x5'" + sizes);
  expect("bf16 TN 1 2 3 ; 4*0", "size is '4*0'" + sizes);
  expect("bf16 TN 1 2 3 ; 4*2*2", "size is '4*2*2'" + sizes);
  expect("bf16 TN 1 2 3 ; 4 alpha=2", "size is 'alpha=2'" + sizes);
  expect("bf16 TN 1 2 3 ; 4 broadcast=c", "broadcast is 'c'");
  expect("bf16 TN 1 2 3 ; 4+-1", "problem.m is -1");
  expect("bf16 TN 1 2 3 ; 4*257",
         "the group has more than 256 products; allowed: 1 to 256");
  expect("bf16 TN 1 2 3 ; 4*200+5*57", "more than 256 products");
  expect("bf16 TN 1 2 ; 4", "line is 'bf16 TN 1 2'");
  expect("bf16 TN 1 2", "line is 'bf16 TN 1 2'");
}

}  // namespace
}  // namespace gemmd::jit
