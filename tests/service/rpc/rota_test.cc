#include "service/rpc/rota.h"

#include <gtest/gtest.h>

#include <vector>

namespace gemmd::rpc {
namespace {

Rota::Loops Only(int loop) { return Rota::Loops().set(loop); }

// A call comes to `loop`, which asks for the next one, as do those that are to.
void Come(Rota& rota, int loop) {
  const Rota::Loops to_ask = rota.Begin(loop);
  rota.Ask(loop);
  for (int i = 0; i < 8; ++i) {
    if (to_ask[i]) rota.Ask(i);
  }
}

TEST(RotaTest, OneLoopTakesFewCalls) {
  Rota rota(4);
  EXPECT_TRUE(rota.Ask(0));
  for (int loop = 1; loop < 4; ++loop) {
    EXPECT_FALSE(rota.Ask(loop));
    EXPECT_TRUE(rota.MaySleep(loop));
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(rota.Begin(0), Rota::Loops());
    EXPECT_TRUE(rota.Ask(0));
    rota.End(0);
    rota.Sweep();
  }
  EXPECT_FALSE(rota.MaySleep(0));
}

TEST(RotaTest, ALoopAsksForOneCallAtATime) {
  Rota rota(1);
  EXPECT_TRUE(rota.Ask(0));
  EXPECT_FALSE(rota.Ask(0));
  rota.Begin(0);
  EXPECT_TRUE(rota.Ask(0));
}

TEST(RotaTest, MoreCallsNeedMoreLoopsWhichLieFarApart) {
  Rota rota(8);
  ASSERT_TRUE(rota.Ask(0));
  std::vector<int> joined;
  for (int i = 0; i < 20; ++i) {
    const Rota::Loops to_ask = rota.Begin(0);
    EXPECT_TRUE(rota.Ask(0));
    for (int loop = 0; loop < 8; ++loop) {
      if (!to_ask[loop]) continue;
      joined.push_back(loop);
      EXPECT_FALSE(rota.MaySleep(loop));
      EXPECT_TRUE(rota.Ask(loop));
    }
  }
  EXPECT_EQ(joined, (std::vector<int>{4, 2, 6, 1, 5, 3, 7}));
}

class LeavingTest : public ::testing::Test {
 protected:
  // Two loops of four are on duty, and no call runs.
  LeavingTest() {
    rota_.Ask(0);
    for (int i = 0; i < 3; ++i) Come(rota_, 0);
    for (int i = 0; i < 3; ++i) rota_.End(0);
    EXPECT_FALSE(rota_.MaySleep(2));
  }

  Rota rota_{4};
};

TEST_F(LeavingTest, ALoopStaysWhileItWasNeededSinceTheLastSweep) {
  rota_.Sweep();
  EXPECT_EQ(rota_.Begin(0), Rota::Loops());
  EXPECT_TRUE(rota_.Ask(0)) << "nobody leaves";
}

TEST_F(LeavingTest, TheOthersHoldBackUntilItsLastCallHasCome) {
  rota_.Sweep();
  rota_.Sweep();
  EXPECT_EQ(rota_.Begin(0), Rota::Loops());
  EXPECT_FALSE(rota_.Ask(0)) << "loop 2 has asked, and gets the next one";
  rota_.End(0);
  EXPECT_FALSE(rota_.MaySleep(2));
  EXPECT_EQ(rota_.Begin(2), Only(0)) << "was held back";
  EXPECT_TRUE(rota_.Ask(0));
  EXPECT_FALSE(rota_.Ask(2));
  EXPECT_FALSE(rota_.MaySleep(2)) << "it has a call";
  rota_.End(2);
  EXPECT_TRUE(rota_.MaySleep(2));
}

TEST_F(LeavingTest, ItStaysWhenItIsNeededMeanwhile) {
  rota_.Sweep();
  rota_.Sweep();
  EXPECT_EQ(rota_.Begin(0), Rota::Loops());
  EXPECT_FALSE(rota_.Ask(0));
  EXPECT_EQ(rota_.Begin(2), Only(0));
  EXPECT_TRUE(rota_.Ask(0));
  EXPECT_FALSE(rota_.Ask(2)) << "it has left";
  EXPECT_EQ(rota_.Begin(0), Only(2)) << "three calls need two loops";
  EXPECT_TRUE(rota_.Ask(2));
}

TEST_F(LeavingTest, ItStaysWhenItsLastCallIsOneTooMany) {
  Come(rota_, 0);
  Come(rota_, 0);
  rota_.Sweep();  // The peak was three.
  rota_.Sweep();
  EXPECT_EQ(rota_.Begin(2), Rota::Loops());
  EXPECT_TRUE(rota_.Ask(2));
}

TEST_F(LeavingTest, CallsThatGoOnKeepIt) {
  Come(rota_, 0);
  Come(rota_, 0);
  Come(rota_, 0);
  for (int i = 0; i < 3; ++i) rota_.Sweep();
  rota_.End(0);
  EXPECT_EQ(rota_.Begin(0), Rota::Loops());
  EXPECT_TRUE(rota_.Ask(0)) << "nobody leaves";
}

}  // namespace
}  // namespace gemmd::rpc
