#include "service/rpc/transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace gemmd::rpc {
namespace {

using ::testing::HasSubstr;

class TransfersTest : public ::testing::Test {
 protected:
  using PartPointer = std::unique_ptr<Transfers::Part>;

  absl::StatusOr<PartPointer> Join(const Transfers::Name& name, int64_t first,
                                   int64_t count) {
    return transfers_.Join(name, {first, count}, now_, [this] {
      ++begun_;
      auto upload = std::make_shared<engine::TensorUpload>();
      upload->layout = {jit::DataType::kU8, jit::Order::kRowMajor, kLines, 1};
      return absl::StatusOr<Transfers::Upload>(std::move(upload));
    });
  }
  absl::StatusOr<PartPointer> Join(int64_t first, int64_t count) {
    return Join(kName, first, count);
  }

  static constexpr int64_t kLines = 1000;
  const Transfers::Name kName = {"alice", "handle", "id"};
  Transfers transfers_;
  absl::Time now_ = absl::Now();
  int begun_ = 0;
};

TEST_F(TransfersTest, EndWhenAllLinesAreThere) {
  PartPointer middle = Join(300, 200).value();
  PartPointer last = Join(500, 500).value();
  PartPointer first = Join(0, 300).value();
  EXPECT_EQ(begun_, 1);
  EXPECT_EQ(first->upload(), last->upload());
  EXPECT_FALSE(middle->Land(now_));
  EXPECT_FALSE(first->Land(now_));
  EXPECT_TRUE(last->Land(now_)) << "nothing lacks then";
  // What is being finished needs none of the others.
  middle.reset();
  EXPECT_TRUE(first->Check().ok());
  last->Finish(absl::NotFoundError("gone"));
  EXPECT_EQ(first->Check(), absl::NotFoundError("gone"));
  EXPECT_EQ(transfers_.open(), 0);
}

// Its end says nothing of the calls of the others, whom nobody gave up.
TEST_F(TransfersTest, WhoIsGivenUpAsHeFinishesIsOneWhoGoes) {
  for (const absl::Status& own :
       {absl::CancelledError("own"), absl::DeadlineExceededError("own")}) {
    const Transfers::Name name = {"alice", "handle",
                                  std::string(own.ToString())};
    const PartPointer first = Join(name, 0, 500).value();
    PartPointer last = Join(name, 500, 500).value();
    EXPECT_FALSE(first->Land(now_));
    EXPECT_TRUE(last->Land(now_));
    last->Finish(own);
    last.reset();
    EXPECT_EQ(first->Check().code(), absl::StatusCode::kAborted);
    EXPECT_THAT(first->Check().message(), HasSubstr("lines 500 to 999"));
  }
  EXPECT_EQ(transfers_.open(), 0);
}

TEST_F(TransfersTest, EveryLineComesOnce) {
  const PartPointer one = Join(100, 100).value();
  const PartPointer two = Join(300, 100).value();
  for (const auto& [first, count] :
       {std::pair(100, 100), std::pair(0, 101), std::pair(199, 1),
        std::pair(150, 10), std::pair(250, 51), std::pair(399, 601),
        std::pair(0, 1000), std::pair(200, 101)}) {
    const absl::Status refused = Join(first, count).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument)
        << first << " " << count;
    EXPECT_THAT(refused.message(), HasSubstr("another part"));
  }
  EXPECT_EQ(Join(0, 101).status().message(),
            "header.part.lines is lines 0 to 100; another part of the transfer "
            "has lines 100 to 199; allowed: every line once");
  // Whoever was refused is no part of it.
  EXPECT_TRUE(one->Check().ok());
  const PartPointer before = Join(0, 100).value();
  const PartPointer between = Join(200, 100).value();
  const PartPointer after = Join(400, 600).value();
}

TEST_F(TransfersTest, APartThatGoesIsTheEndOfAll) {
  const PartPointer landed = Join(0, 500).value();
  EXPECT_FALSE(landed->Land(now_));
  { const PartPointer interrupted = Join(500, 300).value(); }
  EXPECT_EQ(landed->Check().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(landed->Check().message(), HasSubstr("lines 500 to 799"));
  EXPECT_EQ(transfers_.open(), 0);
}

TEST_F(TransfersTest, WhatComesWhenItHasEndedIsTold) {
  { const PartPointer interrupted = Join(500, 300).value(); }
  const absl::Status late = Join(0, 500).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(late.message(), HasSubstr("lines 0 to 499"));
  EXPECT_EQ(begun_, 1);
  now_ += 2 * Transfers::kRemembered;
  EXPECT_TRUE(Join(0, 500).ok()) << "nobody remembers";
}

TEST_F(TransfersTest, PartsThatNeverComeEndIt) {
  const PartPointer first = Join(0, 300).value();
  const PartPointer last = Join(400, 600).value();
  const absl::Duration limit = absl::Seconds(30);
  EXPECT_FALSE(first->Land(now_));
  now_ += absl::Hours(1);
  first->EndIfOverdue(now_, limit);
  EXPECT_TRUE(first->Check().ok()) << "a stream still brings some";
  EXPECT_FALSE(last->Land(now_));
  now_ += limit - absl::Seconds(1);
  first->EndIfOverdue(now_, limit);
  EXPECT_TRUE(first->Check().ok());
  now_ += absl::Seconds(1);
  first->EndIfOverdue(now_, limit);
  EXPECT_EQ(last->Check().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(last->Check().message(), HasSubstr("lines 300 to 399"));
}

// So an id that is guessed is of no use to others.
TEST_F(TransfersTest, AreOfOnePrincipalAndOneTensor) {
  const PartPointer one = Join(0, 500).value();
  const PartPointer principal = Join({"bob", "handle", "id"}, 0, 500).value();
  const PartPointer tensor = Join({"alice", "other", "id"}, 0, 500).value();
  EXPECT_EQ(begun_, 3);
  EXPECT_NE(one->upload(), principal->upload());
}

TEST_F(TransfersTest, AreBoundedInParts) {
  std::vector<PartPointer> parts;
  for (size_t i = 0; i < Transfers::kMostParts; ++i) {
    parts.push_back(Join(i, 1).value());
  }
  EXPECT_EQ(Join(500, 1).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(TransfersTest, ThoseThatEndedLeaveFewNames) {
  for (size_t i = 0; i < Transfers::kMostEnded + 10; ++i) {
    EXPECT_TRUE(Join({"", "handle", absl::StrCat(i)}, 0, 1).ok());
  }
  EXPECT_EQ(transfers_.open(), 0);
  EXPECT_EQ(transfers_.remembered(), Transfers::kMostEnded);
}

}  // namespace
}  // namespace gemmd::rpc
