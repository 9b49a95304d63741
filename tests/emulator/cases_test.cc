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

// Of each case, so that every one has its own orders.
uint64_t FirstSeed(const Case& c) {
  uint64_t seed = 0;
  for (const char letter : c.name) seed = (31 * seed + letter) % 100;
  return seed;
}

TEST_P(CasesTest, IsDefinedAndRight) {
  ExpectRight(GetParam(), {.first = FirstSeed(GetParam()), .count = 4});
}

INSTANTIATE_TEST_SUITE_P(All, CasesTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gemmd::emulator
