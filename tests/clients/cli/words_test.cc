#include "clients/cli/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gemmd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(WordsTest, BlanksDivideThem) {
  EXPECT_THAT(*SplitWords("x.npy  -o\td.npy\r\n"),
              ElementsAre("x.npy", "-o", "d.npy"));
  EXPECT_THAT(*SplitWords(""), IsEmpty());
  EXPECT_THAT(*SplitWords(" \t\n"), IsEmpty());
}

TEST(WordsTest, QuotesHoldBlanks) {
  EXPECT_THAT(*SplitWords(R"('a b' "c d" -o='e f'g"h i")"),
              ElementsAre("a b", "c d", "-o=e fgh i"));
  EXPECT_THAT(*SplitWords(R"('' "")"), ElementsAre("", ""));
  EXPECT_THAT(*SplitWords(R"('say "so"' "it's")"),
              ElementsAre(R"(say "so")", "it's"));
}

TEST(WordsTest, ABackslashIsOneButBeforeItsQuote) {
  EXPECT_THAT(*SplitWords(R"('it\'s' "a \"b\"" c:\d '\"')"),
              ElementsAre("it's", R"(a "b")", R"(c:\d)", R"(\")"));
}

TEST(WordsTest, AQuoteThatDoesNotEndIsAnError) {
  for (const char* line : {"a 'b c", "'", R"("a\")", "a'"}) {
    const auto words = SplitWords(line);
    EXPECT_EQ(words.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(words.status().message(), HasSubstr("is not ended in"));
    EXPECT_THAT(words.status().message(), HasSubstr(line));
  }
}

}  // namespace
}  // namespace gemmd::cli
