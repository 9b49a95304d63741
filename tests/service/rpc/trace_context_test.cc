#include "service/rpc/trace_context.h"

#include <gtest/gtest.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace gemmd::rpc {
namespace {

constexpr char kTrace[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kParent[] = "b7ad6b7169203331";

std::string With(absl::string_view version, absl::string_view trace,
                 absl::string_view parent, absl::string_view rest) {
  return absl::StrCat(version, "-", trace, "-", parent, "-", rest);
}

TEST(TraceContextTest, ReadsTheExampleOfTheStandard) {
  const std::string header = With("00", kTrace, kParent, "01");
  const auto trace = ParseTraceparent(header);
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(trace->trace_id, kTrace);
  EXPECT_EQ(trace->parent_id, kParent);
  EXPECT_EQ(trace->flags, "01");
  EXPECT_EQ(trace->Header(), header);
}

TEST(TraceContextTest, OfLaterVersionsWhatIsKnown) {
  EXPECT_EQ(ParseTraceparent(With("cc", kTrace, kParent, "01-more"))->Header(),
            With("00", kTrace, kParent, "01"));
  EXPECT_TRUE(ParseTraceparent(With("cc", kTrace, kParent, "01")));
  EXPECT_FALSE(ParseTraceparent(With("cc", kTrace, kParent, "01more")));
}

TEST(TraceContextTest, RefusesWhatTheStandardRefuses) {
  const std::string trace_zero(32, '0'), parent_zero(16, '0');
  for (const std::string& header :
       {std::string(), std::string("00"), std::string(55, '-'),
        std::string(10000, '0'), With("ff", kTrace, kParent, "01"),
        With("0x", kTrace, kParent, "01"),
        With("00", trace_zero, kParent, "01"),
        With("00", kTrace, parent_zero, "01"),
        With("00", kTrace, kParent, "01-"), With("00", kTrace, kParent, "1"),
        With("00", kTrace, kParent, "0g"),
        With("00", absl::AsciiStrToUpper(kTrace), kParent, "01"),
        With("00", absl::StrCat(std::string(kTrace).substr(1), "\n"), kParent,
             "01"),
        absl::StrCat(" ", With("00", kTrace, kParent, "01"))}) {
    EXPECT_FALSE(ParseTraceparent(header)) << header;
  }
}

}  // namespace
}  // namespace gemmd::rpc
