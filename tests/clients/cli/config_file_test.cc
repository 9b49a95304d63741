// Nothing in a file of options is passed over: it is read, or it is an error.
#include "clients/cli/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gemmd::cli {

bool operator==(const Setting& a, const Setting& b) {
  return a.name == b.name && a.values == b.values && a.line == b.line;
}

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.line << ": " << setting.name << " = "
       << testing::PrintToString(setting.values);
}

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Setting> Parse(absl::string_view text) {
  const absl::StatusOr<std::vector<Setting>> settings = ParseSettings(text);
  EXPECT_TRUE(settings.ok()) << text << "\n" << settings.status();
  return settings.ok() ? *settings : std::vector<Setting>();
}

// The value of "x = ...".
std::string Value(absl::string_view text) {
  const std::vector<Setting> settings = Parse("x = " + std::string(text));
  return settings.size() == 1 && settings[0].values.size() == 1
             ? settings[0].values[0]
             : "no single value";
}

std::string Error(absl::string_view text) {
  const absl::Status status = ParseSettings(text).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
  return std::string(status.message());
}

TEST(ConfigFileTest, EveryLineHasANameAndAValue) {
  EXPECT_THAT(
      Parse("# ours\n\nlanes = 5\n  quiet=true\t# or not\n\nx = \"y z\""),
      ElementsAre(Setting{"lanes", {"5"}, 3}, Setting{"quiet", {"true"}, 4},
                  Setting{"x", {"y z"}, 6}));
  EXPECT_THAT(Parse(""), IsEmpty());
  EXPECT_THAT(Parse("\n \n# x = 1\n#"), IsEmpty());
  EXPECT_THAT(Parse("\"a-b\" = 1\n'c' = 2\n"),
              ElementsAre(Setting{"a-b", {"1"}, 1}, Setting{"c", {"2"}, 2}));
  EXPECT_THAT(Parse("a = 1\na = 2\n"),
              ElementsAre(Setting{"a", {"1"}, 1}, Setting{"a", {"2"}, 2}));
}

TEST(ConfigFileTest, WordsNeedNoQuotes) {
  for (const char* const word : {"3", "-0.5", "4GiB", "true", "/var/cache",
                                 "unix:/run/a.sock", "a:1,b:2"}) {
    EXPECT_EQ(Value(word), word);
  }
  EXPECT_EQ(Value("5# lanes"), "5");
}

TEST(ConfigFileTest, QuotesHoldEverythingOfALine) {
  EXPECT_EQ(Value(R"("/tmp/cache#2"  # of two)"), "/tmp/cache#2");
  EXPECT_EQ(Value(R"('/tmp/cache#2')"), "/tmp/cache#2");
  EXPECT_EQ(Value(R"("[a] = 'b', c")"), "[a] = 'b', c");
  EXPECT_EQ(Value(R"('say "so"')"), R"(say "so")");
  EXPECT_EQ(Value(R"("")"), "");
  EXPECT_EQ(Value("''"), "");
}

TEST(ConfigFileTest, ABackslashIsForQuotesAndItself) {
  EXPECT_EQ(Value(R"("a\\b \"c\"")"), R"(a\b "c")");
  EXPECT_EQ(Value(R"("\\")"), R"(\)");
  EXPECT_EQ(Value(R"('c:\n\')"), R"(c:\n\)");
  for (const char* const escape :
       {R"(x = "\n")", R"(x = "\u0041")", R"(x = "c:\d")"}) {
    EXPECT_THAT(Error(escape), HasSubstr(R"(line 1: \ is in "...")"));
  }
}

TEST(ConfigFileTest, AListStandsOnAsManyLinesAsItNeeds) {
  for (const char* const list : {
           R"(["/opt/a", "/opt/b"])",
           R"( ["/opt/a",'/opt/b',]  # ours first)",
           "[\"/opt/a\",\n  \"/opt/b\"]  # ours first",
           "[\n  \"/opt/a\",  # ] ours\n\n  # theirs\n  \"/opt/b\",\n]",
           "[\n  \"/opt/a\"\n  , \"/opt/b\"\n]",
           "[/opt/a, /opt/b]",
       }) {
    const std::string text =
        absl::StrCat("layers =", list, "\npolicy = \"p\"\n");
    const std::vector<Setting> settings = Parse(text);
    ASSERT_EQ(settings.size(), 2) << list;
    EXPECT_THAT(settings[0].values, ElementsAre("/opt/a", "/opt/b")) << list;
    EXPECT_EQ(settings[1].name, "policy");
    EXPECT_EQ(settings[1].line, std::count(text.begin(), text.end(), '\n'))
        << list;
  }
  EXPECT_THAT(Parse("x = []\ny = [ \n ]\n"),
              ElementsAre(Setting{"x", {}, 1}, Setting{"y", {}, 2}));
  EXPECT_EQ(Value(R"(["/opt/a#1"])"), "/opt/a#1");
  EXPECT_EQ(Value(R"(["[::1]:50051"])"), "[::1]:50051");
}

TEST(ConfigFileTest, LinesEndAsThoseOfAnySystem) {
  EXPECT_THAT(Parse("# c\r\nx = [\"a\",\r\n \"b\"]\r\ny = z\r\n"),
              ElementsAre(Setting{"x", {"a", "b"}, 2}, Setting{"y", {"z"}, 4}));
  EXPECT_THAT(Parse("# c\rpolicy = 'p'"),
              ElementsAre(Setting{"policy", {"p"}, 1}));
}

TEST(ConfigFileTest, WhatIsNotUnderstoodIsNamedWithItsLine) {
  for (const auto& [text, says] : {
           // Lists without an end.
           std::pair{"a = 1\nx = [\"/opt/a\"\npolicy = \"p\"\n",
                     "line 3: 'policy = \"p\"' follows a value of the list of "
                     "line 2; allowed: a comma, ]"},
           {"x = [\"/opt/a\",\npolicy = \"p\"\n",
            "line 2: '= \"p\"' follows a value of the list of line 1"},
           {"x = [/opt/a,\npolicy=/p\n", "line 2: '=/p' follows a value of"},
           {"a = 1\nx = [\n\n", "line 2: a list begins that no ] ends"},
           {"x = [\"a\",", "line 1: a list begins that no ] ends"},
           {"x = [\"a\" # ]\n", "line 1: a list begins that no ] ends"},
           // Other lists.
           {"x = [\"a\" \"b\"]",
            "line 1: '\"b\"]' follows a value of the list"},
           {"x = [a b]", "line 1: 'b]' follows a value of the list"},
           {"x = [,]", "line 1: ',]' is where a value should be"},
           {"x = [\"a\",\n,]", "line 2: ',]' is where a value should be"},
           {"x = [[\"a\"]]", "line 1: '[\"a\"]]' is where a value should be"},
           // Quotes without an end.
           {"a = 1\nx = \"b\ny = \"c\"\n", "line 2: a quote begins that no \""},
           {"x = 'b", "line 1: a quote begins that no ' ends"},
           {"x = \"b\\\"\n", "line 1: a quote begins that no \" ends"},
           {"x = [\"a\",\n\"b]\n", "line 2: a quote begins that no \" ends"},
           {"x = \"b\\", "line 1: \\ is in"},
           // More than a value.
           {"x = \"a\" b\n", "line 1: 'b' follows a value; allowed: a comment"},
           {"x = /a b  # c\n", "line 1: 'b  # c' follows a value"},
           {"x = \"a\"\"b\"\n", "line 1: '\"b\"' follows a value"},
           {"x = \"\"\"a\"\"\"\n", "line 1: '\"a\"\"\"' follows a value"},
           {"x = a\"b\"\n", "line 1: '\"b\"' follows a value"},
           {"x = [\"a\"] b\n", "line 1: 'b' follows a value"},
           {"x = [::1]:50051\n", "line 1: ':50051' follows a value"},
           {"x = 1 = 2\n", "line 1: '= 2' follows a value"},
           {"x = 1\ry = 2\r", "line 1: 'y = 2' follows a value"},
           // Less than a value.
           {"x =\ny = 2\n", "line 1: the end of the line is where a value"},
           {"x = # 1\n", "line 1: the end of the line is where a value"},
           {"x = ]\n", "line 1: ']' is where a value should be"},
           // Lines of other kinds.
           {"a = 1\nquiet\n",
            "line 2: no value follows 'quiet'; allowed: \"na"},
           {"q\n", "line 1: no value follows 'q'"},
           {"qq\n", "line 1: no value follows 'qq'"},
           {"x # = 1\n", "line 1: no value follows 'x'"},
           {"; x\n", "line 1: no value follows '; x'"},
           {"= 1\n", "line 1: no name is before ="},
           {"\"\" = 1\n", "line 1: no name is before ="},
           {"a = 1\n[default]\n",
            "line 2: [default] is a section; allowed: \""},
           {"[[x]]  # y\n", "line 1: [[x]] is a section; allowed"},
       }) {
    EXPECT_THAT(Error(text), HasSubstr(says)) << text;
  }
}

}  // namespace
}  // namespace gemmd::cli
