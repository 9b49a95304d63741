// Command lines.
#include "clients/gemmctl/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gemmd::gemmctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<Flag> kFlags = {
    {"-o", "FILE", "", ""}, {"--alpha", "X", "", "1"}, {"--quiet", "", "", ""}};

absl::StatusOr<Arguments> Parse(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return Arguments::Parse(kFlags, pointers, 1, 2);
}

TEST(ArgumentsTest, FlagsAndPositionsMix) {
  const auto arguments =
      Parse({"a", "-o", "out", "--alpha=-2.5", "b", "--quiet"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_THAT(arguments->positional(), ElementsAre("a", "b"));
  EXPECT_EQ(arguments->Get("-o"), "out");
  EXPECT_EQ(*arguments->GetNumber("--alpha"), -2.5);
  EXPECT_TRUE(arguments->Has("--quiet"));
}

TEST(ArgumentsTest, Defaults) {
  const auto arguments = Parse({"a"});
  ASSERT_TRUE(arguments.ok());
  EXPECT_EQ(*arguments->GetInteger("--alpha"), 1);
  EXPECT_FALSE(arguments->Has("-o"));
  EXPECT_FALSE(arguments->Has("--quiet"));
}

TEST(ArgumentsTest, NegativeNumbersAreValues) {
  const auto arguments = Parse({"--alpha", "-3", "-1"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_EQ(*arguments->GetNumber("--alpha"), -3);
  EXPECT_THAT(arguments->positional(), ElementsAre("-1"));
}

TEST(ArgumentsTest, WrongLinesSayWhy) {
  EXPECT_THAT(Parse({"a", "--beta", "1"}).status().message(),
              HasSubstr("unknown flag --beta"));
  EXPECT_THAT(Parse({"a", "-o"}).status().message(),
              HasSubstr("-o needs a value"));
  EXPECT_THAT(Parse({}).status().message(), HasSubstr("too few"));
  EXPECT_THAT(Parse({"a", "b", "c"}).status().message(), HasSubstr("too many"));
  const auto arguments = Parse({"a", "--alpha", "two"});
  EXPECT_THAT(arguments->GetNumber("--alpha").status().message(),
              HasSubstr("--alpha: 'two' is not a number"));
}

}  // namespace
}  // namespace gemmd::gemmctl
