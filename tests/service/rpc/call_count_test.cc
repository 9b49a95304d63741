#include "service/rpc/call_count.h"

#include <gtest/gtest.h>

namespace gemmd::rpc {
namespace {

TEST(OwnCallsTest, CallsThatAreAnsweredAreNotOver) {
  OwnCalls calls;
  calls.Begin();
  calls.Begin();
  calls.Answer();
  OwnCalls::Number with = calls.Begin();
  EXPECT_EQ(with.all, 3);
  EXPECT_EQ(with.unanswered, 2);
  EXPECT_EQ(calls.End(), 2);
  with = calls.Begin();
  EXPECT_EQ(with.all, 3);
  EXPECT_EQ(with.unanswered, 3);
}

class CallCountTest : public ::testing::Test {
 protected:
  CallCountTest() {
    for (int i = 0; i < 10; ++i) calls_.Connect();
  }

  CallCount calls_{{.all = 100, .connection = 50, .connection_least = 16}};
};

TEST_F(CallCountTest, OneConnectionMayBeginSoMany) {
  EXPECT_TRUE(calls_.Begin(50, 50));
  EXPECT_FALSE(calls_.Begin(1, 51));
}

TEST_F(CallCountTest, OfTooManyThoseWithMoreThanTheirPartAreEnded) {
  EXPECT_TRUE(calls_.Begin(50, 50));
  EXPECT_TRUE(calls_.Begin(50, 50));
  EXPECT_FALSE(calls_.Begin(17, 17));
  EXPECT_TRUE(calls_.Begin(16, 16));
}

TEST_F(CallCountTest, CallsCountUntilTheyAreOver) {
  calls_.Begin(2, 2);
  calls_.Queue();
  EXPECT_TRUE(calls_.wait());
  calls_.Queue();
  EXPECT_FALSE(calls_.wait());
  calls_.Open();
  EXPECT_EQ(calls_.begun(), 2);
  calls_.Close();
  EXPECT_EQ(calls_.begun(), 1);
}

TEST_F(CallCountTest, CallsThatWereTakenBackCountUntilNoneWaits) {
  calls_.Begin(5, 5);
  calls_.Queue();
  calls_.Open();
  calls_.Queue();  // And does not have its turn yet.
  EXPECT_EQ(calls_.begun(), 5);
  calls_.NoneWaits();
  EXPECT_EQ(calls_.begun(), 2);
  EXPECT_EQ(calls_.emptied(), 1);
  calls_.Queue();  // It was on its way.
  EXPECT_EQ(calls_.begun(), 3);
}

}  // namespace
}  // namespace gemmd::rpc
