#include "service/rpc/room_line.h"

#include <gtest/gtest.h>

#include <optional>

namespace gemmd::rpc {
namespace {

TEST(RoomLineTest, TheOldestIsFirstUntilItLeavesOrStepsBack) {
  RoomLine line;
  std::optional<RoomLine::Place> first;
  first.emplace(line);
  RoomLine::Place second(line), third(line);
  EXPECT_TRUE(first->is_first());
  EXPECT_FALSE(second.is_first());
  first.reset();
  EXPECT_TRUE(second.is_first());
  second.StepBack();
  EXPECT_TRUE(third.is_first());
  third.StepBack();
  EXPECT_TRUE(second.is_first());
}

TEST(RoomLineTest, WhoIsAloneStaysFirst) {
  RoomLine line;
  RoomLine::Place alone(line);
  alone.StepBack();
  EXPECT_TRUE(alone.is_first());
}

}  // namespace
}  // namespace gemmd::rpc
