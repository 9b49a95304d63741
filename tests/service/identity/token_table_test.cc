// Which tokens are whose, and until when.
#include "service/identity/token_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/sha256.h"

namespace gemmd::identity {
namespace {

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

std::string DigestOf(absl::string_view token) {
  jit::Sha256 sha256;
  sha256.Update(token);
  return sha256.Hex();
}

absl::Time At(const std::string& text) {
  absl::Time time;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, text, &time, nullptr));
  return time;
}

TEST(TokenTableTest, KnowsWhoseATokenIs) {
  const auto table =
      TokenTable::Parse(absl::StrCat("# comment\n\n  alice ", DigestOf(kToken),
                                     "\r\nbob\t", DigestOf("another"), "\n"));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(*table->Check(kToken, absl::Now()), "alice");
  EXPECT_EQ(*table->Check("another", absl::Now()), "bob");
}

TEST(TokenTableTest, KnowsNoOther) {
  const std::string token = kToken;
  const auto table = TokenTable::Parse(absl::StrCat("alice ", DigestOf(token)));
  for (const std::string& other :
       {std::string(), token.substr(0, token.size() - 1), token + "0",
        "1" + token.substr(1), absl::AsciiStrToUpper(token), DigestOf(token),
        token.substr(0, 31) + "0"}) {
    EXPECT_EQ(table->Check(other, absl::Now()).status(),
              absl::UnauthenticatedError("the token is unknown"))
        << other;
  }
}

// Of two digests that begin alike, and of two that end alike.
TEST(TokenTableTest, ComparesAllOfADigest) {
  const std::string digest = DigestOf(kToken);
  for (const size_t at : {size_t{0}, size_t{31}, size_t{63}}) {
    std::string other = digest;
    other[at] = other[at] == '0' ? '1' : '0';
    const auto table = TokenTable::Parse(absl::StrCat("alice ", other));
    EXPECT_FALSE(table->Check(kToken, absl::Now()).ok()) << at;
  }
}

TEST(TokenTableTest, ATokenEndsWhenItsLineSays) {
  const auto table = TokenTable::Parse(
      absl::StrCat("alice ", DigestOf(kToken), " 2027-01-31T00:00:00Z"));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(table->Check(kToken, At("2027-01-30T23:59:59Z")).ok());
  EXPECT_EQ(table->Check(kToken, At("2027-01-31T00:00:00Z")).status(),
            absl::UnauthenticatedError("the token has expired"));
}

// As while it is given a later end: in whichever order its lines are.
TEST(TokenTableTest, OfATokenThatIsThereTwiceTheLineThatEndsLastCounts) {
  const std::string early =
      absl::StrCat("alice ", DigestOf(kToken), " 2027-01-31T00:00:00Z\n");
  const std::string late = absl::StrCat("bob ", DigestOf(kToken), "\n");
  for (const std::string& text : {early + late, late + early}) {
    const auto table = TokenTable::Parse(text);
    ASSERT_TRUE(table.ok()) << table.status();
    for (const char* time : {"2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"}) {
      EXPECT_EQ(table->Check(kToken, At(time)).value_or("nobody"), "bob");
    }
  }
}

TEST(TokenTableTest, ErrorsNameTheLineAndNothingInIt) {
  const auto error = [](const std::string& text) {
    const auto table = TokenTable::Parse(text);
    EXPECT_TRUE(absl::IsInvalidArgument(table.status())) << text;
    return std::string(table.status().message());
  };
  EXPECT_EQ(error("# one\nalice"),
            "line 2: allowed: the principal's name, 64 hexadecimal digits and, "
            "if the token ends, when");
  EXPECT_EQ(error("alice secret-in-the-wrong-place"),
            "line 1: the second word is no SHA-256: 64 of 0-9 and a-f");
  EXPECT_EQ(error(absl::StrCat("alice ", DigestOf("x"), " tomorrow")),
            "line 1: the third word is no time such as 2027-01-31T00:00:00Z");
  EXPECT_THAT(error(absl::StrCat("alice ", DigestOf("x"), " a b")),
              ::testing::StartsWith("line 1: allowed"));
}

}  // namespace
}  // namespace gemmd::identity
