#include "jit/base/printable.h"

#include <gtest/gtest.h>

namespace gemmd::jit {
namespace {

TEST(PrintableTest, KeepsTextOfAnyLanguage) {
  for (const char* text :
       {"", "weights of layer 3", "a=\"b\\c\"",
        "Gewichte f\u00fcr \u6df1\u5ea6 \u0646\u0635", "\U0001f680"}) {
    EXPECT_EQ(Printable(text), text);
  }
}

TEST(PrintableTest, ShowsWhatControlsATerminal) {
  EXPECT_EQ(Printable("\x1b[2Ja\rb\nc\td\x7f"), "\\x1b[2Ja\\rb\\nc\\td\\x7f");
  EXPECT_EQ(Printable(absl::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("\u009b31m"), "\\u009b31m");  // The short form of ESC [.
  EXPECT_EQ(Printable("\x9b"), "\\x9b");            // The same as Latin-1.
}

TEST(PrintableTest, ShowsWhatReordersOrHidesText) {
  EXPECT_EQ(Printable("a\u202eb"), "a\\u202eb");
  EXPECT_EQ(Printable("a\u2066b\u200bc\ufeff"), "a\\u2066b\\u200bc\\ufeff");
  EXPECT_EQ(Printable("\u2028"), "\\u2028");
  EXPECT_EQ(Printable("\U000e0041"), "\\U000e0041");
}

TEST(PrintableTest, KeepsTheLinesOfALog) {
  EXPECT_EQ(PrintableLines("a\n\tb\r\x1b[0m\n"), "a\n\tb\\r\\x1b[0m\n");
}

TEST(PrintableTest, ShowsBytesThatAreNotUtf8) {
  EXPECT_EQ(Printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(Printable("a\xc3"), "a\\xc3");                  // Cut off.
  EXPECT_EQ(Printable("\xc0\x9b"), "\\xc0\\x9b");           // Too long.
  EXPECT_EQ(Printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");  // Too long.
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // Half a pair.
  EXPECT_EQ(Printable("\xed\xb0\x80"), "\\xed\\xb0\\x80");  // The other.
  EXPECT_EQ(Printable("\xe2\x80("), "\\xe2\\x80(");  // Goes on as another.
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

}  // namespace
}  // namespace gemmd::jit
