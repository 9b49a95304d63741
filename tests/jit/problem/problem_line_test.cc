#include "jit/problem/problem_line.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"

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
        "bf16 NN 0 7 65 alpha=0.100000001 order=row"}) {
    const absl::StatusOr<Problem> problem = ParseProblemLine(line);
    ASSERT_TRUE(problem.ok()) << problem.status();
    EXPECT_EQ(ProblemLine(*problem), line);
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
           {"bf16 TN 1 2 3 e=f32", "e=f32"}}) {
    const absl::Status status = ParseProblemLine(line).status();
    EXPECT_FALSE(status.ok()) << line;
    EXPECT_TRUE(absl::StrContains(status.message(), word)) << status;
  }
}

TEST(ProblemLineTest, ReadsAFile) {
  const auto problems =
      ParseProblemLines("# shapes\n\nbf16 TN 1 2 3\n  \nf16 NN 4 5 6\n");
  ASSERT_TRUE(problems.ok()) << problems.status();
  ASSERT_EQ(problems->size(), 2u);
  EXPECT_EQ((*problems)[1].k, 6);
  const absl::Status status =
      ParseProblemLines("bf16 TN 1 2 3\nbf16 TN 1 2\n").status();
  EXPECT_TRUE(absl::StartsWith(status.message(), "line 2: ")) << status;
}

}  // namespace
}  // namespace gemmd::jit
