// Who gets a place to wait in when there are fewer than are asked for.
#include "service/engine/places.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "service/engine/try_again.h"
#include "service/engine/waiter.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;

// Says how it was given up.
class FakeWaiter : public Waiter {
 public:
  using Waiter::Waiter;
  absl::Status end;

 private:
  void Refuse(const absl::Status& why) override { end = why; }
};

class PlacesTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeWaiter> Make(std::string identity,
                                   RequestContext context = {}) {
    context.identity = std::move(identity);
    return std::make_shared<FakeWaiter>(std::move(context), health_);
  }
  // One that waits, or is refused.
  std::shared_ptr<FakeWaiter> Enter(std::string identity,
                                    RequestContext context = {}) {
    auto waiter = Make(std::move(identity), std::move(context));
    waiter->end = waiter->WaitIn(places_, Places::Entry::kIfFree);
    return waiter;
  }

  DeviceHealth health_{"cuda:0"};
  Places places_{"device cuda:0", "execution", 4};
};

TEST_F(PlacesTest, AreGivenBackByWhoBegins) {
  auto waiter = Enter("a");
  EXPECT_EQ(places_.taken(), 1);
  EXPECT_TRUE(waiter->Begin());
  EXPECT_EQ(places_.taken(), 0);
  EXPECT_FALSE(waiter->Begin());
  waiter->GiveUp(absl::CancelledError("too late"));
  EXPECT_TRUE(waiter->end.ok());
}

TEST_F(PlacesTest, AreGivenBackByWhoIsGivenUp) {
  auto waiter = Enter("a");
  waiter->GiveUp(absl::CancelledError("gone"));
  EXPECT_EQ(places_.taken(), 0);
  EXPECT_EQ(waiter->end.code(), StatusCode::kCancelled);
  EXPECT_FALSE(waiter->Begin());
  EXPECT_EQ(waiter->WaitIn(places_, Places::Entry::kAlways).code(),
            StatusCode::kCancelled);
  EXPECT_EQ(places_.taken(), 0);
}

TEST_F(PlacesTest, OneIdentityIsRefusedBeyondTheLimit) {
  std::vector<std::shared_ptr<FakeWaiter>> waiters;
  for (int i = 0; i < 4; ++i) waiters.push_back(Enter("a"));
  const auto refused = Enter("a");
  EXPECT_EQ(refused->end.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused->end.message(),
            "device cuda:0 has 4 requests waiting; the limit is 4. Try again "
            "later.");
  for (const auto& waiter : waiters) EXPECT_TRUE(waiter->end.ok());
}

TEST_F(PlacesTest, WhoHoardsMakesRoomForWhoHasNone) {
  std::vector<std::shared_ptr<FakeWaiter>> flood;
  for (int i = 0; i < 4; ++i) flood.push_back(Enter("flood"));
  EXPECT_TRUE(Enter("modest")->end.ok());
  EXPECT_EQ(flood[3]->end.code(), StatusCode::kResourceExhausted)
      << "the newest goes";
  EXPECT_TRUE(Enter("modest")->end.ok());
  EXPECT_EQ(flood[2]->end.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Enter("modest")->end.code(), StatusCode::kResourceExhausted)
      << "it has as much as the other one";
  EXPECT_EQ(Enter("flood")->end.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(flood[1]->end.ok());
  EXPECT_EQ(places_.taken(), 4);
}

// Else the two would displace each other in turn.
TEST_F(PlacesTest, NobodyIsDisplacedByWhoWouldHaveAsMany) {
  std::vector<std::shared_ptr<FakeWaiter>> more, fewer;
  for (int i = 0; i < 2; ++i) more.push_back(Enter("more"));
  for (int i = 0; i < 2; ++i) fewer.push_back(Enter("fewer"));
  more.push_back(Make("more"));
  ASSERT_TRUE(more[2]->WaitIn(places_, Places::Entry::kAlways).ok());
  EXPECT_EQ(Enter("fewer")->end.code(), StatusCode::kResourceExhausted);
  for (const auto& waiter : more) EXPECT_TRUE(waiter->end.ok());
}

TEST_F(PlacesTest, WhoWasAdmittedElsewhereEntersAlways) {
  std::vector<std::shared_ptr<FakeWaiter>> waiters;
  for (int i = 0; i < 4; ++i) waiters.push_back(Enter("a"));
  auto moved = Make("a");
  EXPECT_TRUE(moved->WaitIn(places_, Places::Entry::kAlways).ok());
  EXPECT_EQ(places_.taken(), 5);
}

TEST_F(PlacesTest, OnePlaceIsHeldAtATime) {
  Places other("the compiler", "compilation", 1);
  auto waiter = Enter("a");
  ASSERT_TRUE(waiter->WaitIn(other, Places::Entry::kIfFree).ok());
  EXPECT_EQ(places_.taken(), 0);
  EXPECT_EQ(other.taken(), 1);
}

TEST_F(PlacesTest, ASweepEndsWhatNobodyWaitsFor) {
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  auto gone = Enter("a", {.cancelled = cancelled});
  auto late = Enter("b", {.deadline = absl::Now() + absl::Milliseconds(1)});
  auto patient = Enter("c", {.deadline = absl::Now() + absl::Hours(1)});
  *cancelled = true;
  absl::SleepFor(absl::Milliseconds(2));
  places_.Sweep();
  EXPECT_EQ(gone->end.code(), StatusCode::kCancelled);
  EXPECT_EQ(late->end.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(patient->end.ok());
  EXPECT_EQ(places_.taken(), 1);
}

TEST_F(PlacesTest, ASweepEndsAllThatAFailedDeviceHas) {
  auto waiter = Enter("a");
  EXPECT_TRUE(health_.Fail("it burns"));
  EXPECT_FALSE(health_.Fail("it burns still"));
  places_.Sweep();
  EXPECT_EQ(waiter->end.code(), StatusCode::kUnavailable);
  EXPECT_EQ(waiter->end.message(), "device cuda:0 has failed: it burns");
}

TEST_F(PlacesTest, KnowTheCostOfAllWhoWait) {
  auto one = Make("a");
  one->set_cost(10);
  auto two = Make("b");
  two->set_cost(5);
  ASSERT_TRUE(one->WaitIn(places_, Places::Entry::kIfFree).ok());
  ASSERT_TRUE(two->WaitIn(places_, Places::Entry::kIfFree).ok());
  EXPECT_EQ(places_.cost(), 15);
  one->GiveUp(absl::CancelledError("gone"));
  EXPECT_EQ(places_.cost(), 5);
}

// After the predicted time of a quarter of what waits.
TEST_F(PlacesTest, SayWhenToTryAgain) {
  std::vector<std::shared_ptr<FakeWaiter>> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.push_back(Make("a"));
    waiters.back()->set_cost(int64_t{170'000'000});  // 100 ms each.
    ASSERT_TRUE(waiters.back()->WaitIn(places_, Places::Entry::kIfFree).ok());
  }
  EXPECT_EQ(TryAgainAfter(Enter("a")->end), absl::Milliseconds(100));
  EXPECT_EQ(TryAgainAfter(places_.Displaced()), absl::Milliseconds(100));
}

}  // namespace
}  // namespace gemmd::engine
