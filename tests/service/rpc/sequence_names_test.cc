#include "service/rpc/sequence_names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace gemmd::rpc {
namespace {

using engine::Product;

const jit::MatrixLayout kSmall = {jit::DataType::kF32, jit::Order::kRowMajor, 2,
                                  3};
const jit::MatrixLayout kLarge = {jit::DataType::kF32, jit::Order::kRowMajor, 4,
                                  3};

class SequenceNamesTest : public ::testing::Test {
 protected:
  absl::Status Add(const std::string& name, int64_t bytes = 24) {
    bytes_.push_back(std::make_unique<std::string>(bytes, 'x'));
    return names_.AddOperand(name, {.data = {Piece(*bytes_.back())}});
  }
  absl::Status Read(const std::string& name,
                    const jit::MatrixLayout& layout = kSmall) {
    return names_.Read(regions_, "", name, layout, "a", &Product::a);
  }
  absl::Status Write(const std::string& name, bool leaves = false,
                     const jit::MatrixLayout& layout = kSmall) {
    return names_.Write(name, layout, leaves, "d", &Product::d);
  }
  // A step that reads one and writes another.
  void Step(const std::string& from, const std::string& to,
            bool leaves = false) {
    names_.BeginStep();
    EXPECT_TRUE(from.empty() || Read(from).ok());
    EXPECT_TRUE(Write(to, leaves).ok());
    ++steps_;
  }
  // The rooms, by number, that steps read and write, and of operands.
  struct Bound {
    std::vector<int> read, written, operands;
  };
  Bound Bind() {
    Temporaries rooms;
    for (const jit::MatrixLayout& layout : names_.Rooms()) {
      rooms.push_back(std::make_shared<engine::Tensor>(
          engine::Tensor::Identity{}, layout, engine::QuotaHold()));
    }
    count_ = rooms.size();
    engine::Sequence sequence;
    sequence.steps.resize(steps_);
    names_.Bind(rooms, sequence);
    const auto number = [&](const std::shared_ptr<engine::Tensor>& room) {
      return static_cast<int>(std::ranges::find(rooms, room) - rooms.begin());
    };
    Bound bound;
    for (const auto& step : sequence.steps) {
      bound.read.push_back(number(step.a.tensor));
      bound.written.push_back(number(step.d.tensor));
    }
    for (const auto& operand : sequence.operands) {
      bound.operands.push_back(number(operand.room));
    }
    return bound;
  }

  const region::Store regions_{0};
  SequenceNames names_;
  std::vector<std::unique_ptr<std::string>> bytes_;
  size_t steps_ = 0;
  size_t count_ = 0;
};

TEST_F(SequenceNamesTest, AChainOfResultsTakesTwoRooms) {
  Step("", "h0");
  for (int i = 0; i < 9; ++i) {
    Step("h" + std::to_string(i), "h" + std::to_string(i + 1));
  }
  const Bound bound = Bind();
  EXPECT_EQ(count_, 2u);
  for (int i = 1; i < 10; ++i) {
    EXPECT_EQ(bound.read[i], bound.written[i - 1]);
    EXPECT_NE(bound.read[i], bound.written[i]) << "in the same step";
  }
}

TEST_F(SequenceNamesTest, WhatIsReadLaterOrReturnedKeepsItsRoom) {
  Step("", "early");
  Step("", "returned", true);
  Step("", "x");
  Step("x", "y");
  Step("early", "z");
  Step("z", "");
  const Bound bound = Bind();
  EXPECT_EQ(bound.read[4], bound.written[0]);
  for (int i : {2, 3, 4}) EXPECT_NE(bound.written[i], bound.written[0]);
  for (int i : {2, 3, 4, 5}) EXPECT_NE(bound.written[i], bound.written[1]);
  EXPECT_EQ(bound.written[5], bound.written[0]) << "not read any more";
}

TEST_F(SequenceNamesTest, OperandsLeaveTheirRoomsToo) {
  ASSERT_TRUE(Add("x").ok());
  ASSERT_TRUE(Add("w").ok());
  ASSERT_TRUE(Add("ignored", 1).ok());
  Step("x", "h");
  Step("w", "g");
  Step("g", "last");
  const Bound bound = Bind();
  EXPECT_EQ(bound.operands, (std::vector<int>{0, 1}));
  EXPECT_EQ(bound.read[0], 0);
  EXPECT_EQ(bound.written[0], 2) << "no operand's: w is there, x is read";
  EXPECT_EQ(bound.written[1], 0) << "x is not read any more";
}

TEST_F(SequenceNamesTest, RoomsServeOneLayout) {
  Step("", "h");
  names_.BeginStep();
  ASSERT_TRUE(Write("g", false, kLarge).ok());
  ASSERT_EQ(names_.Rooms().size(), 2u);
  EXPECT_EQ(names_.Rooms()[1], kLarge);
}

TEST_F(SequenceNamesTest, EmptyMatricesTakeNone) {
  ASSERT_TRUE(Add("nothing", 0).ok());
  names_.BeginStep();
  const jit::MatrixLayout empty = {jit::DataType::kF32, jit::Order::kRowMajor,
                                   0, 3};
  ASSERT_TRUE(Read("nothing", empty).ok());
  ASSERT_TRUE(Write("h", true, empty).ok());
  EXPECT_TRUE(names_.Rooms().empty());
}

TEST_F(SequenceNamesTest, SaysWhatIsWrongWithAName) {
  ASSERT_TRUE(Add("x").ok());
  EXPECT_EQ(Add("x").message(),
            "name \"x\" is taken by an operand; allowed: a name of its own");
  EXPECT_EQ(Add("").message(), "name has 0 bytes; allowed: 1 to 64");
  EXPECT_EQ(Add(std::string(65, 'n')).message(),
            "name has 65 bytes; allowed: 1 to 64");
  Step("x", "h");
  names_.BeginStep();
  EXPECT_EQ(Read("g").message(),
            "a.name is \"g\"; allowed: names of operands, and of results of "
            "steps before this one: \"x\", \"h\"");
  EXPECT_EQ(Write("h").message(),
            "d.name \"h\" is taken by steps[0]; allowed: a name of its own");
  EXPECT_EQ(Read("h", kLarge).message(),
            "a.name \"h\" is f32 2 x 3 row_major; allowed for this problem: "
            "f32 4 x 3 row_major");
}

TEST_F(SequenceNamesTest, OperandsHaveTheBytesOfTheStepThatReadsThem) {
  ASSERT_TRUE(Add("x", 25).ok());
  names_.BeginStep();
  const absl::Status refused = Read("x");
  EXPECT_TRUE(absl::StartsWith(refused.message(),
                               "a.name \"x\": operand's data has 25 bytes"))
      << refused;
}

// In any order, and each as often as it has to be there.
TEST_F(SequenceNamesTest, OneOperandServesBatchesOfAnySize) {
  const std::string bytes(24, 'x');
  SequenceOperand operand = {.data = {Piece(bytes)}};
  operand.layout.set_batch_stride(0);
  ASSERT_TRUE(names_.AddOperand("x", operand).ok());
  jit::MatrixLayout three = kSmall;
  three.count = 3;
  for (const jit::MatrixLayout& layout : {kSmall, three, kSmall, three}) {
    names_.BeginStep();
    EXPECT_TRUE(Read("x", layout).ok());
    ++steps_;
  }
  EXPECT_FALSE(Read("x", kLarge).ok());
  const absl::Status known = Read("y");
  EXPECT_TRUE(absl::EndsWith(known.message(), ": \"x\"")) << known;
  const Bound bound = Bind();
  EXPECT_EQ(bound.read, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(bound.operands, (std::vector<int>{0, 1}));
}

TEST_F(SequenceNamesTest, OneOfABatchServesThatAlone) {
  ASSERT_TRUE(Add("x", 72).ok());
  jit::MatrixLayout three = kSmall;
  three.count = 3;
  names_.BeginStep();
  EXPECT_TRUE(Read("x", three).ok());
  EXPECT_FALSE(Read("x").ok());
}

}  // namespace
}  // namespace gemmd::rpc
