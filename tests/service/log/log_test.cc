#include "service/log/log.h"

#include <gtest/gtest.h>

namespace gemmd::log {
namespace {

TEST(LogTest, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(Format("failed", {{"id", "ab-1"},
                              {"us", 17},
                              {"message", "m is -3"},
                              {"empty", ""},
                              {"equal", "a=b"}}),
            "event=failed id=ab-1 us=17 message=\"m is -3\" empty=\"\" "
            "equal=\"a=b\"");
}

TEST(LogTest, AValueCannotForgeALine) {
  EXPECT_EQ(Format("x", {{"v", "a\nlevel=info \"quoted\\"}}),
            "event=x v=\"a\\nlevel=info \\\"quoted\\\\\"");
}

}  // namespace
}  // namespace gemmd::log
