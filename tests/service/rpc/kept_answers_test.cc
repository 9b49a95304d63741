#include "service/rpc/kept_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/engine/try_again.h"

namespace gemmd::rpc {
namespace {

using ::testing::HasSubstr;
using Claim = std::unique_ptr<KeptAnswers::Claim>;

KeptAnswers::Request Key(const std::string& key) {
  return {.principal = "p",
          .key = key,
          .method = "/Matmul",
          .bytes = 10,
          .crc32c = 7};
}

class KeptAnswersTest : public ::testing::Test {
 protected:
  absl::StatusOr<KeptAnswers::Found> Find(const KeptAnswers::Request& request) {
    return answers_.Find(request, now_);
  }
  // That of who is first; null, and a failure, when somebody was before.
  Claim First(const KeptAnswers::Request& request) {
    auto found = Find(request);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok() || !std::holds_alternative<Claim>(*found)) {
      ADD_FAILURE() << "not the first";
      return nullptr;
    }
    return std::get<Claim>(*std::move(found));
  }
  std::string Answer(const KeptAnswers::Request& request) {
    auto found = Find(request);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok() || !std::holds_alternative<std::string>(*found)) return "-";
    return std::get<std::string>(*found);
  }

  KeptAnswers::Clock::time_point now_;
  KeptAnswers answers_;
};

TEST_F(KeptAnswersTest, SecondGetsTheAnswerOfTheFirst) {
  First(Key("k"))->Keep("answer", now_);
  EXPECT_EQ(Answer(Key("k")), "answer");
  EXPECT_EQ(Answer(Key("k")), "answer");
}

TEST_F(KeptAnswersTest, SecondIsToComeAgainUntilThen) {
  const Claim claim = First(Key("k"));
  const absl::Status busy = Find(Key("k")).status();
  EXPECT_EQ(busy.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(engine::TryAgainAfter(busy).has_value());
  claim->Keep("answer", now_);
  EXPECT_EQ(Answer(Key("k")), "answer");
}

TEST_F(KeptAnswersTest, WhatFailedMayBeTriedAgain) {
  First(Key("k")).reset();
  EXPECT_NE(First(Key("k")), nullptr);
}

TEST_F(KeptAnswersTest, WhatWasUndoneMayBeDoneAgain) {
  const Claim claim = First(Key("k"));
  claim->Keep("answer", now_);
  EXPECT_TRUE(claim->MayUndo());
  First(Key("k"))->Keep("another", now_);
  EXPECT_EQ(Answer(Key("k")), "another");
}

// Who was given a tensor would find that it is gone.
TEST_F(KeptAnswersTest, WhatWasGivenToAnotherIsNotUndone) {
  const Claim claim = First(Key("k"));
  claim->Keep("answer", now_);
  EXPECT_EQ(Answer(Key("k")), "answer");
  EXPECT_FALSE(claim->MayUndo());
  EXPECT_EQ(Answer(Key("k")), "answer");
}

// A call that ends late, when others have taken its place and its key.
TEST_F(KeptAnswersTest, WhatIsUndoneLateForgetsNoOthersKey) {
  const Claim late = First(Key("k"));
  late->Keep("answer", now_);
  for (int64_t i = 0; i < KeptAnswers::kMostKeys; ++i) {
    First(Key(absl::StrCat(i)))->Keep("", now_);
  }
  const Claim next = First(Key("k"));
  EXPECT_TRUE(late->MayUndo());
  EXPECT_EQ(Find(Key("k")).status().code(),
            absl::StatusCode::kResourceExhausted);
  next->Keep("another", now_);
  EXPECT_TRUE(late->MayUndo());
  EXPECT_EQ(Answer(Key("k")), "another");
}

TEST_F(KeptAnswersTest, WhatWasGivenIsNotUndoneThoughItsKeyWasDropped) {
  const Claim claim = First(Key("k"));
  claim->Keep("answer", now_);
  EXPECT_EQ(Answer(Key("k")), "answer");
  now_ += KeptAnswers::kLifetime;
  const Claim next = First(Key("k"));
  EXPECT_FALSE(claim->MayUndo());
}

TEST_F(KeptAnswersTest, AnswerThatIsNotKeptIsSaidToExist) {
  First(Key("none"))->Keep(std::nullopt, now_);
  First(Key("long"))
      ->Keep(std::string(KeptAnswers::kMostAnswerBytes + 1, 'x'), now_);
  First(Key("just"))
      ->Keep(std::string(KeptAnswers::kMostAnswerBytes, 'x'), now_);
  EXPECT_EQ(Find(Key("none")).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Find(Key("long")).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Answer(Key("just")).size(), KeptAnswers::kMostAnswerBytes);
}

TEST_F(KeptAnswersTest, KeyIsOfOneRequest) {
  First(Key("k"))->Keep("answer", now_);
  for (int field = 0; field < 3; ++field) {
    KeptAnswers::Request other = Key("k");
    if (field == 0) other.method = "/Sequence";
    if (field == 1) other.bytes = 11;
    if (field == 2) other.crc32c = 8;
    const absl::Status refused = Find(other).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_THAT(refused.message(), HasSubstr("another request"));
  }
  EXPECT_EQ(Answer(Key("k")), "answer");
}

TEST_F(KeptAnswersTest, PrincipalsHaveKeysOfTheirOwn) {
  First(Key("k"))->Keep("answer", now_);
  KeptAnswers::Request other = Key("k");
  other.principal = "q";
  EXPECT_NE(First(other), nullptr);
}

TEST_F(KeptAnswersTest, KeysAreForgottenInTheEnd) {
  First(Key("k"))->Keep("answer", now_);
  now_ += KeptAnswers::kLifetime - std::chrono::seconds(1);
  EXPECT_EQ(Answer(Key("k")), "answer");
  now_ += std::chrono::seconds(1);
  EXPECT_NE(First(Key("k")), nullptr);
}

TEST_F(KeptAnswersTest, OldestKeysMakeRoom) {
  for (int64_t i = 0; i < KeptAnswers::kMostKeys + 1; ++i) {
    First(Key(absl::StrCat(i)))->Keep("answer", now_);
  }
  EXPECT_EQ(Answer(Key("1")), "answer");
  EXPECT_NE(First(Key("0")), nullptr);
}

TEST_F(KeptAnswersTest, BytesOfAnswersAreBounded) {
  const int64_t fit = KeptAnswers::kMostBytes / KeptAnswers::kMostAnswerBytes;
  const std::string answer(KeptAnswers::kMostAnswerBytes, 'x');
  for (int64_t i = 0; i <= fit; ++i) {
    First(Key(absl::StrCat(i)))->Keep(answer, now_);
  }
  EXPECT_EQ(Answer(Key("1")), answer);
  EXPECT_NE(First(Key("0")), nullptr);
  // What was undone takes none.
  KeptAnswers others;
  for (int64_t i = 0; i < 2 * fit; ++i) {
    auto found = others.Find(Key(absl::StrCat(i)), now_);
    const Claim claim = std::get<Claim>(*std::move(found));
    claim->Keep(answer, now_);
    if (i > 0) {
      EXPECT_TRUE(claim->MayUndo());
    }
  }
  auto first = others.Find(Key("0"), now_);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(std::holds_alternative<std::string>(*first));
}

// A claim that ends late takes no key from who has it then.
TEST_F(KeptAnswersTest, ClaimsEndWithoutHarm) {
  Claim old = First(Key("k"));
  old->Keep("answer", now_);
  now_ += KeptAnswers::kLifetime;
  const Claim next = First(Key("k"));
  old.reset();
  EXPECT_EQ(Find(Key("k")).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace gemmd::rpc
