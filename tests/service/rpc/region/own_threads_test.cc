#include "service/rpc/region/own_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "tests/service/gate.h"

namespace gemmd::rpc::region {
namespace {

using testing::Eventually;
using testing::Gate;
using ::testing::HasSubstr;

// What it holds outlives the test, as what threads use has to.
struct Held {
  Gate gate;
  std::atomic<int> ended = 0;
};

class OwnThreadsTest : public ::testing::Test {
 protected:
  OwnThreadsTest() { held_->gate.Close(); }
  ~OwnThreadsTest() override { held_->gate.Open(); }

  // Work that stands still until the gate is opened.
  absl::Status Hold(OwnThreads& threads, const std::string& identity) {
    return threads.Run(identity, [held = held_] {
      held->gate.Pass();
      ++held->ended;
    });
  }
  void ExpectFull(const absl::Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }

  const std::shared_ptr<Held> held_ = std::make_shared<Held>();
};

TEST_F(OwnThreadsTest, WhoStandsStillHoldsNobodyUp) {
  OwnThreads threads(8);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Hold(threads, "mallory").ok());
  EXPECT_TRUE(held_->gate.WaitForArrivals(3));
  const auto done = std::make_shared<std::atomic<bool>>(false);
  ASSERT_TRUE(threads.Run("alice", [done] { *done = true; }).ok());
  EXPECT_TRUE(Eventually([&] { return done->load(); }));
  EXPECT_EQ(held_->ended, 0);
}

TEST_F(OwnThreadsTest, ThereAreSoManyAndOfOneThreeQuarters) {
  OwnThreads threads(8);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(Hold(threads, "mallory").ok());
  ExpectFull(Hold(threads, "mallory"), "the limit of one client is 6");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(Hold(threads, "alice").ok());
  ExpectFull(Hold(threads, "bob"), "the limit of all clients is 8");
  held_->gate.Open();
  EXPECT_TRUE(Eventually([&] { return Hold(threads, "mallory").ok(); }));
}

TEST_F(OwnThreadsTest, NothingWaitsForTheirEnd) {
  {
    OwnThreads threads(8);
    ASSERT_TRUE(Hold(threads, "mallory").ok());
    EXPECT_TRUE(held_->gate.WaitForArrivals(1));
  }
  EXPECT_EQ(held_->ended, 0);
  held_->gate.Open();
  EXPECT_TRUE(Eventually([&] { return held_->ended == 1; }));
}

}  // namespace
}  // namespace gemmd::rpc::region
