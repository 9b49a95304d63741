// Who wins, given what is measured.
#include "service/engine/contest.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

namespace gemmd::engine {
namespace {

// Samples by contender and by how often it was sampled before.
using Times = std::function<double(size_t contender, int sample)>;

struct Held {
  Contest::Result result;
  std::map<size_t, int> samples;
};

Held Hold(size_t contenders, const Times& times) {
  Contest contest(contenders);
  Held run;
  while (const auto next = contest.Next()) {
    contest.Add(times(*next, run.samples[*next]++));
  }
  run.result = contest.result();
  return run;
}

// Two first samples, then two rounds.
constexpr int kFirst = 2;
constexpr int kRound = 5;

TEST(ContestTest, TheFastestWins) {
  const std::vector<double> us = {10, 9, 12, 8.5, 9.5};
  const Held run = Hold(us.size(), [&](size_t i, int) { return us[i]; });
  EXPECT_EQ(run.result.winner, 3);
  EXPECT_EQ(run.result.winner_us, 8.5);
  EXPECT_EQ(run.result.incumbent_us, 10);
}

TEST(ContestTest, TheIncumbentStaysWhereTooLittleIsGained) {
  const std::vector<double> us = {10, 9.91, 9.95, 11};
  const Held run = Hold(us.size(), [&](size_t i, int) { return us[i]; });
  EXPECT_EQ(run.result.winner, 0);
  EXPECT_EQ(run.result.winner_us, 10);
  const Held longer =
      Hold(us.size(), [&](size_t i, int) { return i == 0 ? 1000 : 996; });
  EXPECT_EQ(longer.result.winner, 0);
}

TEST(ContestTest, OnePercentIsEnoughWhereTimesAreSteady) {
  const Held run = Hold(2, [](size_t i, int sample) {
    return (i == 0 ? 1000.0 : 990.0) + sample % 3;
  });
  EXPECT_EQ(run.result.winner, 1);
}

TEST(ContestTest, AndNotWhereTheIncumbentIsAsFastNowAndThen) {
  const Held run = Hold(2, [](size_t i, int sample) {
    if (i == 1) return 990.0;
    return sample >= kFirst && (sample - kFirst) % kRound == 2 ? 989.0 : 1000.0;
  });
  EXPECT_EQ(run.result.winner, 0);
}

TEST(ContestTest, OneRoundIsNotEnough) {
  const auto times = [](int lucky_round) {
    return [lucky_round](size_t i, int sample) {
      if (i == 0) return 10.0;
      const int round = (sample - kFirst) / kRound;
      return sample >= kFirst && round != lucky_round ? 10.0 : 8.0;
    };
  };
  EXPECT_EQ(Hold(2, times(0)).result.winner, 0);
  EXPECT_EQ(Hold(2, times(1)).result.winner, 0);
  EXPECT_EQ(
      Hold(2, [](size_t i, int) { return i == 0 ? 10.0 : 8.0; }).result.winner,
      1);
}

TEST(ContestTest, OneOutlierOfARoundDoesNotCount) {
  const Held run = Hold(2, [](size_t i, int sample) {
    if (sample >= kFirst && (sample - kFirst) % kRound == 1) return 100.0;
    return i == 0 ? 10.0 : 9.0;
  });
  EXPECT_EQ(run.result.winner, 1);
  EXPECT_EQ(run.result.winner_us, 9);
}

TEST(ContestTest, FirstLooksDoNotCountInARound) {
  const Held run = Hold(2, [](size_t i, int sample) {
    if (i == 0) return 10.0;
    return sample < kFirst || (sample - kFirst) % kRound == 2 ? 10.5 : 9.0;
  });
  EXPECT_EQ(run.result.winner, 1);
  EXPECT_EQ(run.result.winner_us, 9);
}

TEST(ContestTest, TheHopelessAreNotSampledOn) {
  const std::vector<double> us = {10, 9.2, 9.95, 15, 10.3};
  const Held run = Hold(us.size(), [&](size_t i, int) { return us[i]; });
  EXPECT_EQ(run.samples.at(1), kFirst + 2 * kRound);
  EXPECT_EQ(run.samples.at(2), kFirst + kRound);  // As fast as the incumbent.
  EXPECT_EQ(run.samples.at(3), 1);
  EXPECT_EQ(run.samples.at(4), kFirst);
}

// What it is compared with is measured in the same rounds.
TEST(ContestTest, TheIncumbentIsSampledHoweverSlowItIs) {
  const Held run = Hold(8, [](size_t i, int) { return i == 0 ? 50.0 : 9.0; });
  EXPECT_EQ(run.samples.at(0), kFirst + 2 * kRound);
  EXPECT_NE(run.result.winner, 0);
  EXPECT_EQ(run.result.incumbent_us, 50);
}

// Nobody is left who could win in two rounds.
TEST(ContestTest, WhereNobodyBeatsTheIncumbentOneRoundIsEnough) {
  const Held run = Hold(3, [](size_t, int) { return 10.0; });
  EXPECT_EQ(run.result.winner, 0);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(run.samples.at(i), kFirst + kRound);
}

TEST(ContestTest, FinalistsAreBounded) {
  const Held run = Hold(64, [](size_t, int) { return 10.0; });
  int finalists = 0;
  for (const auto& [i, count] : run.samples) finalists += count > kFirst;
  EXPECT_EQ(finalists, 6);
}

TEST(ContestTest, OneContenderIsTimed) {
  const Held run = Hold(1, [](size_t, int) { return 7.0; });
  EXPECT_EQ(run.result.winner, 0);
  EXPECT_EQ(run.result.winner_us, 7);
}

TEST(ContestTest, NobodyAlwaysFollowsTheSameNeighbour) {
  Contest contest(3);
  std::vector<size_t> order;
  for (int i = 0; i < 6; ++i) {
    order.push_back(*contest.Next());
    contest.Add(1);
  }
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 2, 1, 0}));
}

}  // namespace
}  // namespace gemmd::engine
