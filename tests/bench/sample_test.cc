#include "tests/bench/sample.h"

#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "jit/problem/arithmetic.h"
#include "jit/problem/problem_line.h"

namespace gemmd::bench {
namespace {

jit::Problem Parse(absl::string_view line) {
  return *jit::ParseProblemLine(line);
}

constexpr absl::string_view kLike = "bf16 TN 16 16 16";

TEST(SampleTest, ProblemsAreOfTheTypeAskedFor) {
  for (const char* type :
       {"tf32", "e4m3-fast", "s8", "sparse-bf16", "s8-sparse", "bf16-s4"}) {
    const auto like = Parse(absl::StrCat(type, " TN 16 16 16"));
    for (const jit::Problem& problem : SampleProblems(20, 3, like)) {
      EXPECT_TRUE(Validate(problem).ok()) << ProblemLine(problem);
      EXPECT_EQ(Name(problem.arithmetic()), type);
      EXPECT_EQ(problem.d_type, like.d_type);
    }
  }
}

TEST(SampleTest, TheSameSeedGivesTheSameProblemsAnotherSeedOthers) {
  const auto first = SampleProblems(50, 7, Parse(kLike));
  const auto again = SampleProblems(50, 7, Parse(kLike));
  const auto other = SampleProblems(50, 8, Parse(kLike));
  int same = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(ProblemLine(first[i]), ProblemLine(again[i]));
    same += ProblemLine(first[i]) == ProblemLine(other[i]);
  }
  EXPECT_LT(same, 5);
}

TEST(SampleTest, EveryStratumAndLayoutIsThere) {
  std::map<Stratum, int> strata;
  std::map<int, int> layouts;
  for (const jit::Problem& problem : SampleProblems(250, 1, Parse(kLike))) {
    EXPECT_TRUE(Validate(problem).ok()) << ProblemLine(problem);
    ++strata[StratumOf(problem)];
    ++layouts[static_cast<int>(problem.a_order) * 2 +
              static_cast<int>(problem.b_order)];
  }
  for (const Stratum stratum : kStrata) {
    EXPECT_GE(strata[stratum], 5) << Name(stratum);
  }
  EXPECT_EQ(layouts.size(), 4);
}

TEST(SampleTest, StrataSayWhatLimitsAProblem) {
  EXPECT_EQ(StratumOf(Parse("bf16 TN 1 4096 4096")), Stratum::kVector);
  EXPECT_EQ(StratumOf(Parse("bf16 TN 4096 4096 16")), Stratum::kOuter);
  EXPECT_EQ(StratumOf(Parse("bf16 TN 1111 2222 3333")), Stratum::kOdd);
  EXPECT_EQ(StratumOf(Parse("bf16 NT 4096 16 4096")), Stratum::kSkinny);
  EXPECT_EQ(StratumOf(Parse("bf16 TN 256 256 65536")), Stratum::kLongK);
  EXPECT_EQ(StratumOf(Parse("bf16 TN 512 512 512")), Stratum::kSmall);
  EXPECT_EQ(StratumOf(Parse("bf16 TN 4096 4096 4096")), Stratum::kRegular);
}

}  // namespace
}  // namespace gemmd::bench
