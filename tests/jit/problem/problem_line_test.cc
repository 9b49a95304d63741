#include "jit/problem/problem_line.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "jit/problem/problem_option.h"

namespace gemmd::jit {
namespace {

TEST(ProblemLineTest, ReadsLettersOfColumnMajorBlas) {
  const absl::StatusOr<Problem> problem =
      ParseProblemLine("bf16 TN 4096 7168 2304  # a projection");
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->m, 4096);
  EXPECT_EQ(problem->n, 7168);
  EXPECT_EQ(problem->k, 2304);
  EXPECT_EQ(problem->a_type, DataType::kBf16);
  EXPECT_EQ(problem->d_type, DataType::kBf16);
  EXPECT_EQ(problem->a_order, Order::kRowMajor);
  EXPECT_EQ(problem->b_order, Order::kColumnMajor);
  EXPECT_EQ(problem->d_order, Order::kColumnMajor);
  EXPECT_EQ(problem->alpha, 1);
  EXPECT_EQ(problem->beta, 0);
}

TEST(ProblemLineTest, ReadsOptions) {
  const absl::StatusOr<Problem> problem =
      ParseProblemLine("f16 NT 1 2 3 d=f32 alpha=0.5 beta=-1 order=row");
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->d_type, DataType::kF32);
  EXPECT_EQ(problem->c_type, DataType::kF32);
  EXPECT_EQ(problem->alpha, 0.5f);
  EXPECT_EQ(problem->beta, -1);
  EXPECT_EQ(problem->d_order, Order::kRowMajor);
}

TEST(ProblemLineTest, WritesWhatItReads) {
  for (const char* line :
       {"bf16 TN 8192 8192 8192", "f16 NT 1 2 3 d=f32 alpha=0.5 beta=-1",
        "bf16 NN 0 7 65 alpha=0.100000001 order=row",
        "sparse-bf16 TT 5 7 12 d=f32", "e4m3-sparse-e5m2 NN 5 7 12",
        "bf16-s4 TN 5 7 9", "u4-f16 TT 5 7 9 group=32 zero_points",
        "s8-bf16 TN 5 7 9 d=f32 group=k", "e4m3-f16-f32 NN 5 7 9"}) {
    const absl::StatusOr<Problem> problem = ParseProblemLine(line);
    ASSERT_TRUE(problem.ok()) << problem.status();
    EXPECT_EQ(ProblemLine(*problem), line);
  }
}

TEST(ProblemLineTest, EveryArithmeticIsAWord) {
  for (const Arithmetic& arithmetic : Arithmetics()) {
    const auto problem =
        ParseProblemLine(absl::StrCat(Name(arithmetic), " TN 1 2 4"));
    if (absl::IsUnimplemented(problem.status())) continue;  // No kernels.
    ASSERT_TRUE(problem.ok()) << problem.status();
    EXPECT_EQ(problem->arithmetic(), arithmetic);
  }
}

TEST(ProblemLineTest, OptionsAreWrittenAsTheyAreRead) {
  for (const char* text :
       {" d=f32", " c=f32 beta=1", " batch=4 broadcast=b",
        " batch=4 broadcast=ab",
        " bias=row a_scale=row b_scale=column act=gelu_tanh d_scale aux amax",
        " a_scale=block b_scale=block invariant", " order=row bias=column"}) {
    Problem problem = {.m = 1, .n = 2, .k = 3};
    problem.d_order = Order::kColumnMajor;
    for (absl::string_view word :
         absl::StrSplit(text, ' ', absl::SkipEmpty())) {
      ASSERT_TRUE(ParseProblemOption(word, problem).ok()) << word;
    }
    EXPECT_EQ(ProblemOptions(problem), text);
  }
}

TEST(ProblemLineTest, OptionsAndNamesSayTheSameArithmetic) {
  Problem problem;
  problem.a_type = problem.b_type = DataType::kE4m3;
  ASSERT_TRUE(ParseProblemOption("precision=fast", problem).ok());
  EXPECT_EQ(Name(problem.arithmetic()), "e4m3-fast");
  EXPECT_EQ(ProblemOptions(problem), " d=bf16 order=row");
  ASSERT_TRUE(ParseProblemOption("precision=default", problem).ok());
  ASSERT_TRUE(ParseProblemOption("acc=f16", problem).ok());
  EXPECT_EQ(Name(problem.arithmetic()), "e4m3-f16");
  const absl::Status status = ParseProblemOption("act=tanh", problem);
  EXPECT_EQ(status.message(),
            "act is 'tanh'; allowed: none, relu, gelu, gelu_tanh, silu");
}

TEST(ProblemLineTest, WhatAnOptionMayBeIsTold) {
  EXPECT_EQ(AllowedValues("bias"), "none, row, column");
  EXPECT_EQ(AllowedValues("acc"), "f32, f16, s32");
  for (const char* option : {"bias", "a_scale", "b_scale", "act", "op"}) {
    for (const auto value :
         absl::StrSplit(AllowedValues(option), absl::ByString(", "))) {
      Problem problem;
      EXPECT_TRUE(
          ParseProblemOption(absl::StrCat(option, "=", value), problem).ok());
    }
  }
}

TEST(ProblemLineTest, NamesWhatIsWrong) {
  for (const auto& [line, word] :
       std::vector<std::pair<std::string, std::string>>{
           {"bf16 TN 1 2", "line"},
           {"bf17 TN 1 2 3", "bf17"},
           {"bf16 XN 1 2 3", "XN"},
           {"bf16 TN 1 -2 3", "-2"},
           {"bf16 TN 1 2 3000000000", "k"},
           {"bf16 TN 1 2 3 beta=x", "beta"},
           {"bf16 TN 1 2 3 order=diagonal", "diagonal"},
           {"bf16-u4 TN 1 2 3 group=x",
            "group is 'x'; allowed: 32, 64, 128, k"},
           {"bf16-u4 TN 1 2 3 group=48",
            "group is '48'; allowed: 32, 64, 128, k"},
           {"bf16-u4 TN 1 2 3 group=2147483647",
            "group is '2147483647'; allowed: 32, 64, 128, k"},
           {"bf16-u4 TN 1 2 3 group=", "group is ''; allowed: 32"},
           {"bf16-u4 TN 1 2 3 zero_points", "without a group: false"},
           {"bf16 TN 1 2 3 e=f32", "e=f32"}}) {
    const absl::Status status = ParseProblemLine(line).status();
    EXPECT_FALSE(status.ok()) << line;
    EXPECT_TRUE(absl::StrContains(status.message(), word)) << status;
  }
}

}  // namespace
}  // namespace gemmd::jit
