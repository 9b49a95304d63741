#include "jit/cache/patience.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"

namespace gemmd::jit {
namespace {

// A process that stopped leaves many kernels half made.
TEST(PatienceTest, AfterAWaitInVainTheNextAreShorter) {
  constexpr absl::Duration kLongest = absl::Milliseconds(100);
  Patience patience(kLongest);
  Patience::Wait first, beside, later;
  EXPECT_TRUE(patience.Lasts(first));
  EXPECT_TRUE(patience.Lasts(beside));
  EXPECT_EQ(first.limit, kLongest);
  absl::SleepFor(kLongest);
  EXPECT_FALSE(patience.Lasts(first));
  patience.Lasts(later);
  EXPECT_EQ(later.limit, kLongest / 10);
  // One that had begun keeps its own.
  EXPECT_EQ(beside.limit, kLongest);
}

}  // namespace
}  // namespace gemmd::jit
