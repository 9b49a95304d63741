#include "service/rpc/recent_failures.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace gemmd::rpc {
namespace {

TEST(RecentFailuresTest, KeepsTheNewestFirst) {
  RecentFailures failures;
  for (int i = 0; i < 60; ++i) {
    failures.Note({.id = absl::StrCat(i), .code = absl::StatusCode::kInternal});
  }
  const auto list = failures.List();
  ASSERT_EQ(list.size(), RecentFailures::kMost);
  EXPECT_EQ(list.front().id, "59");
  EXPECT_EQ(list.back().id, "10");
}

TEST(RecentFailuresTest, HoldsLittleOfWhatClientsSend) {
  RecentFailures failures;
  failures.Note({.method = std::string(100000, 'm'),
                 .message = std::string(100000, 't')});
  EXPECT_EQ(failures.List()[0].method.size(), RecentFailures::kMaxTextBytes);
  EXPECT_EQ(failures.List()[0].message.size(), RecentFailures::kMaxTextBytes);
}

}  // namespace
}  // namespace gemmd::rpc
