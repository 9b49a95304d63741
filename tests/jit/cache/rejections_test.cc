#include "jit/cache/rejections.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/time/clock.h"

namespace gemmd::jit {
namespace {

const absl::Status kCrash = absl::UnavailableError("crashed");
const absl::Status kRejection = absl::InternalError("nonsense");

TEST(RejectionsTest, TheOldestMakesRoom) {
  Rejections rejections(absl::Hours(1), absl::Hours(1), 2);
  // One that fails again is new again, and takes one place.
  for (const char* key : {"a", "b", "a", "c"}) rejections.Add(key, kRejection);
  EXPECT_EQ(rejections.Find("a"), kRejection);
  EXPECT_TRUE(rejections.Find("b").ok());
  EXPECT_EQ(rejections.Find("c"), kRejection);
  rejections.Remove("a");
  rejections.Add("d", kRejection);
  EXPECT_TRUE(rejections.Find("a").ok());
  EXPECT_EQ(rejections.Find("c"), kRejection);
  EXPECT_EQ(rejections.Find("d"), kRejection);
}

// Where the pause of a crash would be longer, and however often it doubled.
TEST(RejectionsTest, NoPauseIsLongerThanTheLifetime) {
  constexpr absl::Duration kLifetime = absl::Milliseconds(1);
  Rejections crashes(kLifetime, absl::Hours(1), 10);
  crashes.Add("key", kCrash);
  absl::SleepFor(2 * kLifetime);
  EXPECT_TRUE(crashes.Find("key").ok());
  for (int i = 0; i < 30; ++i) crashes.Add("key", kCrash);
  absl::SleepFor(2 * kLifetime);
  EXPECT_TRUE(crashes.Find("key").ok());
}

}  // namespace
}  // namespace gemmd::jit
