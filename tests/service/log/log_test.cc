#include "service/log/log.h"

#include <gtest/gtest.h>

namespace gemmd::log {
namespace {

TEST(LogTest, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(Format("failed", {{"id", "ab-1"},
                              {"us", 17},
                              {"message", "m is -3"},
                              {"empty", ""},
                              {"equal", "a=b"},
                              {"quote", "a\"b"}}),
            "event=failed id=ab-1 us=17 message=\"m is -3\" empty=\"\" "
            "equal=\"a=b\" quote=\"a\\\"b\"");
}

TEST(LogTest, AValueCannotForgeALine) {
  EXPECT_EQ(Format("x", {{"v", "a\nlevel=info \"quoted\\"}}),
            "event=x v=\"a\\nlevel=info \\\"quoted\\\\\"");
}

TEST(LogTest, AValueCannotControlATerminal) {
  EXPECT_EQ(Format("x", {{"v", "\x1b[2J\u009b31m\xff"}}),
            "event=x v=\"\\x1b[2J\\u009b31m\\xff\"");
}

TEST(LogTest, ALongValueIsCutOff) {
  EXPECT_EQ(Format("x", {{"v", std::string(100000, 'a')}, {"w", 1}}),
            "event=x v=" + std::string(2048, 'a') + "... w=1");
  EXPECT_EQ(Format("x", {{"v", std::string(2048, 'a')}}),
            "event=x v=" + std::string(2048, 'a'));
}

// However much longer it is when all of it is escaped.
TEST(LogTest, AValueIsCutOffAsItIsWritten) {
  for (const Style style : {Style::kText, Style::kJson}) {
    for (const std::string byte : {"\1", "\"", "\\", "\xff", " "}) {
      std::string value;
      for (int i = 0; i < 2048; ++i) value += byte;
      const size_t written = Format("x", {{"v", value}}, style).size();
      EXPECT_LT(written, 2048 + 40) << byte;
      EXPECT_GT(written, 2000) << byte;
    }
  }
}

TEST(LogTest, JsonHasNumbersAndText) {
  EXPECT_EQ(Format("failed", {{"us", 17}, {"message", "m is -3"}, {"", "x"}},
                   Style::kJson),
            R"("event":"failed","us":17,"message":"m is -3")");
}

TEST(LogTest, AJsonValueCannotForgeAFieldOrALine) {
  EXPECT_EQ(Format("x", {{"v", "a\",\"b\":1\\\n\x1b[2J\xff"}}, Style::kJson),
            R"("event":"x","v":"a\",\"b\":1\\\\n\\x1b[2J\\xff")");
  EXPECT_EQ(Format("x", {{"v", std::string(100000, 'a')}}, Style::kJson),
            "\"event\":\"x\",\"v\":\"" + std::string(2048, 'a') + "...\"");
}

}  // namespace
}  // namespace gemmd::log
