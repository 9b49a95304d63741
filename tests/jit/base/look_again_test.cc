#include "jit/base/look_again.h"

#include <gtest/gtest.h>

namespace gemmd::jit {
namespace {

TEST(LookAgainTest, ComesAfterAnEighthOfTheWaitWithinBounds) {
  EXPECT_EQ(UntilNextLook(absl::ZeroDuration()), absl::Milliseconds(5));
  EXPECT_EQ(UntilNextLook(absl::Milliseconds(80)), absl::Milliseconds(10));
  EXPECT_EQ(UntilNextLook(absl::Milliseconds(800)), absl::Milliseconds(100));
  EXPECT_EQ(UntilNextLook(absl::Hours(1)), absl::Milliseconds(100));
}

}  // namespace
}  // namespace gemmd::jit
