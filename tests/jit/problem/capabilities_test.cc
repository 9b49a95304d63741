#include "jit/problem/capabilities.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "jit/problem/arithmetic.h"

namespace gemmd::jit {
namespace {

TEST(CapabilitiesTest, EveryArithmeticIsARow) {
  for (const Arithmetic& arithmetic : Arithmetics()) {
    EXPECT_TRUE(absl::StrContains(CapabilitiesText(), Name(arithmetic)));
    EXPECT_TRUE(absl::StrContains(CapabilitiesMarkdown(),
                                  "| " + Name(arithmetic) + " |"));
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
