#include "service/engine/try_again.h"

#include <gtest/gtest.h>

#include "jit/base/status.h"

namespace gemmd::engine {
namespace {

TEST(TryAgainTest, SaysWhatIsWantingAndAfterWhatTime) {
  const absl::Status error =
      TryAgainError("3 of 3 places are taken", absl::Milliseconds(120));
  EXPECT_EQ(error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(error.message(), "3 of 3 places are taken. Try again later.");
  EXPECT_EQ(TryAgainAfter(error), absl::Milliseconds(120));
}

TEST(TryAgainTest, TheTimeIsNeitherNothingNorForever) {
  EXPECT_EQ(TryAgainAfter(TryAgainError("", absl::ZeroDuration())),
            absl::Milliseconds(10));
  EXPECT_EQ(TryAgainAfter(TryAgainError("", absl::InfiniteDuration())),
            absl::Seconds(5));
}

TEST(TryAgainTest, AnErrorOfOneOfManyKeepsIt) {
  const absl::Status error = TryAgainError("full", absl::Seconds(1));
  EXPECT_EQ(TryAgainAfter(jit::OfElement("steps", 2, error)), absl::Seconds(1));
}

TEST(TryAgainTest, OthersWouldFailAgain) {
  EXPECT_EQ(TryAgainAfter(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(TryAgainAfter(absl::ResourceExhaustedError("too long")),
            std::nullopt);
}

}  // namespace
}  // namespace gemmd::engine
