// The real kernels of the cases in cases.txt, in several orders of what is
// asynchronous.
#include <gtest/gtest.h>

#include "tests/emulator/run_case.h"

namespace gemmd::emulator {
namespace {

std::vector<Case> Cases() {
  const auto cases = ReadCases(GEMMD_TEST_CASES);
  EXPECT_TRUE(cases.ok()) << cases.status();
  return cases.value_or(std::vector<Case>());
}

class CasesTest : public testing::TestWithParam<Case> {};

TEST_P(CasesTest, IsDefinedAndRight) { ExpectRight(GetParam(), 5); }

INSTANTIATE_TEST_SUITE_P(All, CasesTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gemmd::emulator
