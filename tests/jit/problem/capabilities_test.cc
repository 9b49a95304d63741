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

TEST(CapabilitiesTest, ReadmeHasTheTableOfTheCode) {
  std::ifstream file(GEMMD_TEST_README);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(absl::StrContains(text.str(), CapabilitiesMarkdown()))
      << "put the output of `gemmctl capabilities --markdown` into README.md";
}

}  // namespace
}  // namespace gemmd::jit
