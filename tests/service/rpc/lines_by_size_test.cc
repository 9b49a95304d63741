#include "service/rpc/lines_by_size.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>

namespace gemmd::rpc {
namespace {

class LinesBySizeTest : public ::testing::Test {
 protected:
  struct Waiting {
    int64_t bytes() const {
      ++*looks;
      return size;
    }
    int64_t number() const { return place; }

    int64_t size;
    int64_t place;
    int64_t* looks;
  };

  Waiting& Add(int64_t bytes) {
    const auto place = static_cast<int64_t>(all_.size());
    all_.push_back({bytes, place, &looks_});
    lines_.Add(all_.back());
    return all_.back();
  }

  int64_t looks_ = 0;
  std::deque<Waiting> all_;
  LinesBySize<Waiting> lines_;
};

TEST_F(LinesBySizeTest, TheOldestIsFirst) {
  EXPECT_TRUE(lines_.empty());
  EXPECT_EQ(lines_.First(), nullptr);
  Waiting& large = Add(1000);
  Waiting& small = Add(1);
  EXPECT_EQ(lines_.First(), &large);
  lines_.Remove(large);
  EXPECT_EQ(lines_.First(), &small);
  lines_.Remove(small);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(LinesBySizeTest, WhoWaitsForTooMuchIsPassedByThoseOfOtherSizes) {
  Add(1000);
  Waiting& small = Add(100);
  Add(1);
  EXPECT_EQ(lines_.First(999), &small);
  EXPECT_EQ(lines_.First(99), &all_[2]);
  EXPECT_EQ(lines_.First(0), nullptr);
}

TEST_F(LinesBySizeTest, WithinALineNobodyIsOvertaken) {
  Waiting& first = Add(127);
  Waiting& second = Add(64);
  EXPECT_EQ(lines_.First(126), nullptr);
  EXPECT_EQ(lines_.First(127), &first);
  lines_.Remove(first);
  EXPECT_EQ(lines_.First(126), &second);
}

TEST_F(LinesBySizeTest, HoweverManyWaitTheFirstOfEachSizeIsLookedAt) {
  for (int i = 0; i < 10'000; ++i) Add(1 + i % 1000);
  looks_ = 0;
  EXPECT_EQ(lines_.First(), &all_[0]);
  EXPECT_LE(looks_, 10);  // 1 to 999 have ten lengths.
  looks_ = 0;
  EXPECT_EQ(lines_.First(0), nullptr);
  EXPECT_LE(looks_, 10);
}

}  // namespace
}  // namespace gemmd::rpc
