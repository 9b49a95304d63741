#include "service/rpc/budget.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "service/rpc/async.h"
#include "tests/service/rpc/test_loop.h"

namespace gemmd::rpc {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

class BudgetTest : public ::testing::Test {
 protected:
  // Waits on the loop; the answer comes when the wait ends.
  std::future<absl::Status> Wait(Budget::Account& account, int64_t bytes,
                                 absl::Duration patience = kLong,
                                 bool has_room = false) {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    loop_.Post([this, &account, bytes, until = absl::Now() + patience, has_room,
                promise] { Run(account, bytes, until, has_room, promise); });
    return promise->get_future();
  }
  static bool IsOver(const std::future<absl::Status>& wait) {
    return wait.wait_for(std::chrono::milliseconds(50)) ==
           std::future_status::ready;
  }
  static absl::Status Get(std::future<absl::Status>& wait) {
    if (wait.wait_for(kPatience) != std::future_status::ready) {
      return absl::UnknownError("still waits");
    }
    return wait.get();
  }

  Budget budget_{"requests", 100, 50};
  Budget::Account a_, b_, c_;

 private:
  Task Run(Budget::Account& account, int64_t bytes, absl::Time until,
           bool has_room, std::shared_ptr<std::promise<absl::Status>> promise) {
    Budget::Wait wait(budget_, account, bytes, loop_.loop(), until, has_room);
    const absl::Status status = co_await wait;
    promise->set_value(status);
  }

  TestLoop loop_;
};

TEST_F(BudgetTest, WhatFitsIsTakenAtOnce) {
  EXPECT_TRUE(budget_.TryTake(a_, 40));
  EXPECT_TRUE(budget_.TryTake(b_, 50));
  EXPECT_FALSE(budget_.TryTake(c_, 11));
  EXPECT_TRUE(budget_.TryTake(c_, 10));
  EXPECT_EQ(budget_.held_bytes(), 100);
  budget_.Return(a_, 40);
  EXPECT_EQ(budget_.held_bytes(), 60);
}

TEST_F(BudgetTest, OneConnectionHoldsItsShareAtMost) {
  EXPECT_TRUE(budget_.TryTake(a_, 30));
  EXPECT_FALSE(budget_.TryTake(a_, 21));
  EXPECT_TRUE(budget_.TryTake(a_, 20));
  // One message may be larger than a share.
  EXPECT_FALSE(budget_.TryTake(b_, 51));
  budget_.Return(a_, 50);
  EXPECT_TRUE(budget_.TryTake(b_, 80));
}

TEST_F(BudgetTest, AWaitEndsWhenThereIsRoom) {
  ASSERT_TRUE(budget_.TryTake(a_, 100));
  auto wait = Wait(b_, 60);
  EXPECT_FALSE(IsOver(wait));
  EXPECT_TRUE(budget_.contended());
  EXPECT_TRUE(budget_.WaitedFor(a_));
  budget_.Return(a_, 30);
  EXPECT_FALSE(IsOver(wait));
  budget_.Return(a_, 30);
  EXPECT_TRUE(Get(wait).ok());
  EXPECT_FALSE(budget_.contended());
  EXPECT_EQ(budget_.held_bytes(), 100);
}

TEST_F(BudgetTest, ALargeOneIsNotOvertakenUntilItStarves) {
  ASSERT_TRUE(budget_.TryTake(a_, 50));
  auto large = Wait(b_, 80);
  EXPECT_FALSE(IsOver(large));
  // There is room for these, but it is not their turn.
  EXPECT_FALSE(budget_.TryTake(c_, 10));
  auto small = Wait(c_, 10);
  EXPECT_FALSE(IsOver(small));
  budget_.Return(a_, 50);
  EXPECT_TRUE(Get(large).ok());
  EXPECT_TRUE(Get(small).ok());
}

TEST_F(BudgetTest, WhoGivesUpNoLongerStandsInTheWay) {
  ASSERT_TRUE(budget_.TryTake(a_, 50));
  auto large = Wait(b_, 80, absl::Milliseconds(500));
  EXPECT_FALSE(IsOver(large));
  auto small = Wait(c_, 10);
  EXPECT_FALSE(Get(large).ok());
  EXPECT_TRUE(Get(small).ok());
}

TEST_F(BudgetTest, WhoWaitsForItsShareHoldsUpNobodyElse) {
  ASSERT_TRUE(budget_.TryTake(a_, 50));
  auto greedy = Wait(a_, 10);
  EXPECT_FALSE(IsOver(greedy));
  EXPECT_TRUE(budget_.TryTake(b_, 50));
  budget_.Return(b_, 50);
  budget_.Return(a_, 50);
  EXPECT_TRUE(Get(greedy).ok());
}

TEST_F(BudgetTest, WhoHoldsLeastComesFirst) {
  Budget::Account d;
  ASSERT_TRUE(budget_.TryTake(a_, 20));
  ASSERT_TRUE(budget_.TryTake(d, 80));
  auto again = Wait(a_, 30);
  EXPECT_FALSE(IsOver(again));
  auto fresh = Wait(b_, 70);
  EXPECT_FALSE(IsOver(fresh));
  budget_.Return(d, 80);
  EXPECT_TRUE(Get(fresh).ok());
  EXPECT_FALSE(IsOver(again));
  budget_.Return(b_, 70);
  EXPECT_TRUE(Get(again).ok());
}

// Those of one client that is beyond its share, and those of another that wait
// for room: what one of them costs must not grow with how many there are, or
// who begins thousands of calls holds up all loops when their time is over.
TEST_F(BudgetTest, OfManyWhoseTimeIsOverOneCostsWhatItDoesOfFew) {
  ASSERT_TRUE(budget_.TryTake(a_, 50) && budget_.TryTake(b_, 50));
  const auto cpu_seconds_of_one = [this](int count) {
    const std::clock_t start = std::clock();
    const absl::Time end = absl::Now() + absl::Seconds(2);
    std::vector<std::future<absl::Status>> waits;
    for (int i = 0; i < count; ++i) {
      waits.push_back(Wait(i % 2 == 0 ? a_ : c_, 1, end - absl::Now()));
    }
    for (auto& wait : waits) {
      EXPECT_EQ(Get(wait).code(), absl::StatusCode::kResourceExhausted);
    }
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / count;
  };
  const double of_few = cpu_seconds_of_one(4000);
  EXPECT_LT(cpu_seconds_of_one(32'000), 3 * of_few);
}

// One of its own that its share does not allow may have been before it.
TEST_F(BudgetTest, WhoGivesUpMayHaveStoodInTheWayOfItsOwnClient) {
  ASSERT_TRUE(budget_.TryTake(a_, 36) && budget_.TryTake(b_, 64));
  auto larger = Wait(a_, 15, absl::Milliseconds(200));
  auto smaller = Wait(a_, 9);  // Of like size.
  EXPECT_FALSE(IsOver(smaller));
  budget_.Return(b_, 64);
  EXPECT_TRUE(absl::IsResourceExhausted(Get(larger)));
  EXPECT_TRUE(Get(smaller).ok());
}

TEST_F(BudgetTest, WhatIsThereAlreadyMayLeaveTheTurnToAnotherClient) {
  ASSERT_TRUE(budget_.TryTake(a_, 30) && budget_.TryTake(b_, 40));
  auto large = Wait(c_, 40);  // Whose turn it is: c holds least.
  auto small = Wait(a_, 10);
  EXPECT_FALSE(IsOver(small));
  budget_.Take(c_, 15);  // With which 40 are beyond its share.
  EXPECT_TRUE(Get(small).ok());
  EXPECT_FALSE(IsOver(large));
  budget_.Return(c_, 15);
  budget_.Return(b_, 40);
  EXPECT_TRUE(Get(large).ok());
}

TEST_F(BudgetTest, AWaitHasAnEnd) {
  ASSERT_TRUE(budget_.TryTake(a_, 100));
  auto wait = Wait(b_, 60, absl::Milliseconds(20));
  EXPECT_EQ(Get(wait).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(budget_.contended());
  budget_.Return(a_, 100);
  EXPECT_EQ(budget_.held_bytes(), 0);
}

TEST_F(BudgetTest, WhatCanNeverFitIsRefusedAtOnce) {
  auto wait = Wait(b_, 101);
  EXPECT_EQ(Get(wait).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(BudgetTest, AQuotaCountsInPlaceOfTheShare) {
  budget_.SetQuota(a_, 30);
  budget_.SetQuota(b_, 70);
  EXPECT_FALSE(budget_.TryTake(a_, 31)) << "not even one message";
  EXPECT_TRUE(budget_.TryTake(a_, 30));
  EXPECT_TRUE(budget_.TryTake(b_, 60));
  EXPECT_TRUE(budget_.TryTake(b_, 10));
  EXPECT_EQ(budget_.MostOf(a_), 30);
  EXPECT_EQ(budget_.MostOf(c_), 100);
  budget_.SetQuota(b_, 200);
  EXPECT_EQ(budget_.MostOf(b_), 100);
}

TEST_F(BudgetTest, WhoWaitsForItsQuotaHoldsUpNobodyElse) {
  budget_.SetQuota(a_, 30);
  ASSERT_TRUE(budget_.TryTake(a_, 20));
  auto greedy = Wait(a_, 20);
  EXPECT_FALSE(IsOver(greedy));
  EXPECT_TRUE(budget_.TryTake(b_, 50));
  EXPECT_TRUE(budget_.WaitedFor(a_));
  EXPECT_FALSE(budget_.WaitedFor(b_));
  auto brief = Wait(a_, 20, absl::Milliseconds(20));
  EXPECT_EQ(Get(brief).message(),
            "the daemon waited for room for 20 bytes of requests and did not "
            "get it; it holds 70, the limit is 100, of which the principal "
            "holds 20 and gets 30 (max_in_flight_bytes). Try again later.");
  EXPECT_FALSE(IsOver(greedy));
  budget_.Return(a_, 20);
  EXPECT_TRUE(Get(greedy).ok());
}

TEST_F(BudgetTest, AQuotaThatGrowsLetsInWhoWaits) {
  budget_.SetQuota(a_, 30);
  ASSERT_TRUE(budget_.TryTake(a_, 30));
  auto wait = Wait(a_, 20);
  EXPECT_FALSE(IsOver(wait));
  budget_.SetQuota(a_, 50);
  EXPECT_TRUE(Get(wait).ok());
}

TEST_F(BudgetTest, WhatIsBeyondTheQuotaIsRefusedAtOnceAndToldSo) {
  budget_.SetQuota(a_, 30);
  auto wait = Wait(a_, 31);
  EXPECT_EQ(Get(wait),
            absl::ResourceExhaustedError(
                "31 bytes of requests can never be held: the principal's limit "
                "is 30 (max_in_flight_bytes)"));
}

// A sequence holds its request and waits for the room that a stream has, which
// waits for bytes of the budget: each would wait for the other.
TEST_F(BudgetTest, WhoHasRoomOnADeviceBorrowsWhatThoseHoldWhoWaitForIt) {
  ASSERT_TRUE(budget_.TryTake(a_, 90));
  auto stream = Wait(b_, 20, kLong, /*has_room=*/true);
  auto other = Wait(c_, 20);
  EXPECT_FALSE(IsOver(stream));
  budget_.Lend(90);
  EXPECT_TRUE(Get(stream).ok());
  EXPECT_FALSE(IsOver(other)) << "it has no room on a device";
  EXPECT_EQ(budget_.held_bytes(), 110);

  budget_.Lend(-90);
  auto next = Wait(b_, 20, kLong, /*has_room=*/true);
  EXPECT_FALSE(IsOver(next)) << "nobody lends";
  budget_.Return(b_, 20);
  EXPECT_FALSE(IsOver(other)) << "what was borrowed beside the total";
  EXPECT_FALSE(IsOver(next));
  budget_.Return(a_, 90);
  EXPECT_TRUE(Get(other).ok());
  EXPECT_TRUE(Get(next).ok());
}

TEST_F(BudgetTest, WhoBorrowsTakesNothingOfWhatOthersWaitFor) {
  ASSERT_TRUE(budget_.TryTake(a_, 40));
  ASSERT_TRUE(budget_.TryTake(b_, 30));
  budget_.Lend(40);
  auto large = Wait(c_, 60);
  EXPECT_FALSE(IsOver(large));
  Budget::Account d, e;
  auto stream = Wait(d, 20, kLong, /*has_room=*/true);
  EXPECT_TRUE(Get(stream).ok());
  auto more = Wait(e, 30, kLong, /*has_room=*/true);
  EXPECT_FALSE(IsOver(more)) << "no more than is lent";
  EXPECT_TRUE(budget_.WaitedFor(d));
  budget_.Return(b_, 30);
  EXPECT_TRUE(Get(large).ok());
  EXPECT_FALSE(IsOver(more));
  budget_.Return(d, 20);
  EXPECT_TRUE(Get(more).ok());
}

// As long as it is one message: other ones wait for its return.
TEST_F(BudgetTest, WhatIsBorrowedMayBeMoreThanIsLent) {
  ASSERT_TRUE(budget_.TryTake(a_, 10));
  ASSERT_TRUE(budget_.TryTake(b_, 90));
  budget_.Lend(10);
  auto stream = Wait(c_, 40, kLong, /*has_room=*/true);
  EXPECT_TRUE(Get(stream).ok());
  auto own = Wait(c_, 40, kLong, /*has_room=*/true);
  EXPECT_FALSE(IsOver(own));
  budget_.Return(c_, 40);
  EXPECT_TRUE(Get(own).ok());
  budget_.Return(c_, 40);
  EXPECT_EQ(budget_.held_bytes(), 100);
}

}  // namespace
}  // namespace gemmd::rpc
