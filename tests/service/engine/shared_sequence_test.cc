// Sequences that read and write memory that a client shares: in which order, as
// what that counts, and when the client has it back.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "service/engine/paths.h"
#include "service/engine/sequence.h"
#include "tests/service/fake_region.h"
#include "tests/service/sequence_fixture.h"

namespace gemmd::engine {
namespace {

using testing::Answer;
using testing::Eventually;
using testing::FakeRegion;
using testing::SequenceTest;
using testing::TestEngine;

class SharedSequenceTest : public SequenceTest {
 protected:
  void Put(float value) {
    const std::string bytes = testing::Fill(
        TestEngine::Problem().d(), 3, [=](int64_t, int64_t) { return value; });
    bytes.copy(region_->bytes().data(), bytes.size());
  }
  float Get(int64_t offset) const {
    return testing::Get(jit::DataType::kF32, region_->bytes().data() + offset,
                        0);
  }
  // h = 2 x, which goes to the region at 24 * n too, and g = 3 h.
  Sequence Steps() {
    const auto x = Room(), h = Room(), g = Room();
    Sequence sequence = {.rooms = {x, h, g}};
    sequence.operands.push_back(
        {.name = "x",
         .bytes = {.pieces = {{region_->bytes().data(), 24}},
                   .pitch_bytes = 12,
                   .region = region_},
         .room = x});
    sequence.steps = {Scale(x, 2, h), Scale(h, 3, g)};
    return sequence;
  }
  void Share(Product& step, int64_t offset) {
    step.d.place = {region_, offset};
  }

  const std::shared_ptr<FakeRegion> region_ =
      std::make_shared<FakeRegion>(4096);
};

TEST_F(SharedSequenceTest, ItIsReadFirstAndWrittenLast) {
  Put(7);
  Sequence sequence = Steps();
  sequence.steps.push_back(sequence.steps[0]);  // Reads x again.
  sequence.steps[2].d.tensor = Room();
  sequence.rooms.push_back(sequence.steps[2].d.tensor);
  Share(sequence.steps[0], 0);
  Share(sequence.steps[1], 24);
  Share(sequence.steps[2], 48);
  Log();
  const auto result = Run(std::move(sequence));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Get(0), 14);
  EXPECT_EQ(Get(24), 42);
  EXPECT_EQ(Get(48), 14) << "of x as it was";
  EXPECT_EQ(region_->bytes()[72], '.');
  EXPECT_EQ(result->steps[0].d, nullptr);
  const std::string log = Log();
  EXPECT_EQ(log.substr(log.find('u')), "ummmsddd");
  EXPECT_EQ(region_.use_count(), 1) << "who has the answer has it alone";
}

// Where results are not written in place either: a later step reads the room.
TEST_F(SharedSequenceTest, MemoryOfADeviceIsCopied) {
  const auto there = std::make_shared<FakeRegion>(4096, 0);
  const auto x = Filled(5);
  const auto h = Room(), g = Room();
  Sequence sequence = {.rooms = {h, g}};
  sequence.steps = {Scale(x, 2, h), Scale(h, 3, g)};
  for (int i = 0; i < 2; ++i) sequence.steps[i].d.place = {there, 24 * i};
  const auto result = Run(std::move(sequence));
  ASSERT_TRUE(result.ok()) << result.status();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(
        testing::Get(jit::DataType::kF32, there->bytes().data() + 24 * i, 0),
        i == 0 ? 10 : 30);
  }
}

// Two of the same operand's, which is brought once, and then its room has
// what the first step made.
TEST_F(SharedSequenceTest, CopiesAreCountedWhereTheyAreMadeFor) {
  const auto there = std::make_shared<FakeRegion>(4096, 0);
  Sequence sequence = Steps();
  const auto x = sequence.rooms[0], h = sequence.rooms[1];
  sequence.operands[0].bytes.region = there;
  sequence.steps = {Scale(x, 2, h), Scale(x, 2, x), Scale(x, 2, h)};
  sequence.steps[1].d.place = {there, 24};
  sequence.steps[2].d.is_returned = true;
  const std::vector<Paths> paths = PathsOf(sequence);
  ASSERT_EQ(paths.size(), 3u);
  EXPECT_EQ(paths[0].c, Path::kDeviceVmm);
  EXPECT_EQ(paths[0].d, Path::kTensor);
  EXPECT_EQ(paths[0].copies, 1);
  EXPECT_EQ(paths[1].c, Path::kDeviceVmm);
  EXPECT_EQ(paths[1].d, Path::kDeviceVmm);
  EXPECT_EQ(paths[1].copies, 1) << "of the result";
  EXPECT_EQ(paths[2].c, Path::kTensor);
  EXPECT_EQ(paths[2].d, Path::kInline);
  EXPECT_EQ(paths[2].copies, 0);
}

TEST_F(SharedSequenceTest, WhatIsBroughtFromTheDeviceIsCharged) {
  Sequence sequence = Steps();
  const int64_t bytes = TestEngine::Problem().d().device_bytes();
  EXPECT_EQ(ReturnedBytes(sequence), 0) << "results stay in rooms";
  sequence.steps[0].d.is_returned = true;
  EXPECT_EQ(ReturnedBytes(sequence), bytes);
  Share(sequence.steps[1], 24);
  EXPECT_EQ(ReturnedBytes(sequence), 2 * bytes);
  sequence.steps[1].d.place.region = std::make_shared<FakeRegion>(4096, 0);
  EXPECT_EQ(ReturnedBytes(sequence), bytes) << "it is copied within it";
}

TEST_F(SharedSequenceTest, AStepThatFailsLeavesItAsItWas) {
  Put(7);
  Sequence sequence = Steps();
  Share(sequence.steps[0], 24);
  Share(sequence.steps[1], 48);
  products_ = 0;
  fails_at_ = 2;
  Log();
  EXPECT_EQ(Run(std::move(sequence)).status().message(), "steps[1]: broken");
  EXPECT_EQ(Log(), "aaaums") << "nothing is downloaded";
  EXPECT_EQ(Get(0), 7);
  EXPECT_EQ(region_->bytes()[24], '.');
}

TEST_F(SharedSequenceTest,
       IsAnsweredBeforeItsEndWhereNothingOfTheClientsIsUsed) {
  EXPECT_TRUE(MayBeAbandoned(Sequence()));
  Sequence sequence = Steps();
  EXPECT_TRUE(MayBeAbandoned(sequence)) << "the region is held";
  sequence.operands.push_back(sequence.operands[0]);
  sequence.operands[1].bytes.region = nullptr;
  EXPECT_FALSE(MayBeAbandoned(sequence));
  sequence.operands.pop_back();
  Share(sequence.steps[1], 24);
  EXPECT_FALSE(MayBeAbandoned(sequence));
  sequence.steps[1].d = {};
  sequence.steps[0].auxiliary.place = {region_, 24};
  EXPECT_FALSE(MayBeAbandoned(sequence));
}

TEST_F(SharedSequenceTest, WhileADeviceHangsItIsNotGivenBack) {
  TestEngine hanging(
      {.executor = {.lanes = 1, .hang_limit = absl::Milliseconds(20)}},
      {Hooks()});
  Sequence sequence = Steps();
  for (auto& room : sequence.rooms) {
    room = hanging->MakeTemporaries({room->layout()}, 0, "").value()[0];
  }
  sequence.operands[0].room = sequence.rooms[0];
  sequence.steps = {Scale(sequence.rooms[0], 2, sequence.rooms[1]),
                    Scale(sequence.rooms[1], 3, sequence.rooms[2])};
  Sequence writes = sequence;
  Share(writes.steps[1], 24);
  Put(7);
  const int before = gate_.arrived();
  gate_.Close();
  Answer<SequenceResult> answer;
  hanging->RunInOrder(std::move(writes), 0, {}, answer.done());
  ASSERT_TRUE(gate_.WaitForArrivals(before + 1));
  ASSERT_TRUE(Eventually([&] { return !hanging->device_state(0).ok(); }));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(answer.there());
  gate_.Open();
  EXPECT_TRUE(answer.Wait().ok()) << "it came to an end after all";
  EXPECT_EQ(Get(24), 42);
}

}  // namespace
}  // namespace gemmd::engine
