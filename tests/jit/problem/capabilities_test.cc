#include "jit/problem/capabilities.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "jit/problem/arithmetic.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {
namespace {

TEST(CapabilitiesTest, EveryArithmeticIsARow) {
  for (const Arithmetic& arithmetic : Arithmetics()) {
    EXPECT_TRUE(absl::StrContains(CapabilitiesText(), Name(arithmetic)));
    EXPECT_TRUE(absl::StrContains(CapabilitiesMarkdown(),
                                  "| " + Name(arithmetic) + " |"))
        << Name(arithmetic);
  }
}

TEST(CapabilitiesTest, SparseOnesStandWithTheDenseOne) {
  for (const char* row :
       {"| e4m3-e5m2 | e4m3 | e5m2 | f32 | promoted every 128 k; scales by "
        "block | f32, f16, bf16, e4m3, e5m2 | sparse-e4m3-e5m2 | "
        "e4m3-sparse-e5m2 |\n",
        "| b1 | b1 | b1 | s32 | counts bits that are both 1 | s32, f32, f16, "
        "bf16, s8, u8 |  |  |\n"}) {
    EXPECT_TRUE(absl::StrContains(CapabilitiesMarkdown(), row))
        << CapabilitiesMarkdown();
  }
}

TEST(CapabilitiesTest, WeightsSayWhatTheyAreWidenedTo) {
  for (const char* row :
       {"| bf16-u4 | bf16 | u4 | f32 | u4 widened to bf16; scales by group | ",
        "| e4m3-f16-f32 | e4m3 | f16 | f32 | e4m3 widened to f16; scales by "
        "group | "}) {
    EXPECT_TRUE(absl::StrContains(CapabilitiesMarkdown(), row))
        << CapabilitiesMarkdown();
  }
}

// A row has the outputs of all of its names.
TEST(CapabilitiesTest, SparseOnesHaveTheOutputsOfTheDenseOne) {
  for (Arithmetic arithmetic : Arithmetics()) {
    const auto outputs = OutputsOf(arithmetic.accumulator);
    Problem problem = {.m = 1, .n = 1, .k = 4};
    problem.SetArithmetic(arithmetic);
    problem.b_order = Order::kColumnMajor;
    for (const DataType output : outputs) {
      problem.c_type = problem.d_type = output;
      EXPECT_TRUE(Validate(problem).ok()) << Validate(problem);
    }
  }
}

TEST(CapabilitiesTest, EveryStepSaysWhatItGoesWith) {
  for (const char* row :
       {"| a_scale and b_scale | block | of 1 x 128 of A, 128 x 128 of B | "
        "e4m3, e4m3-e5m2, e5m2-e4m3, e5m2 |",
        "| bias | row, column | is added | all | f32, f16, bf16, e4m3, e5m2, "
        "s8, u8 |",
        "| activation | relu, gelu, gelu_tanh, silu |"}) {
    EXPECT_TRUE(absl::StrContains(EpilogueMarkdown(), row))
        << EpilogueMarkdown();
  }
  EXPECT_TRUE(absl::StrContains(CapabilitiesText(), "gelu_tanh, silu"));
}

TEST(CapabilitiesTest, ReadmeHasTheTablesOfTheCode) {
  std::ifstream file(GEMMD_TEST_README);
  std::stringstream text;
  text << file.rdbuf();
  for (const std::string& table :
       {CapabilitiesMarkdown(), EpilogueMarkdown()}) {
    EXPECT_TRUE(absl::StrContains(text.str(), table))
        << "put the output of `gemmctl capabilities --markdown` into README.md";
  }
}

}  // namespace
}  // namespace gemmd::jit
