// Every arithmetic of the table of what is served, each in another layout,
// output, schedule and orientation than the one before.
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "jit/problem/arithmetic.h"
#include "tests/emulator/run_case.h"

namespace gemmd::emulator {
namespace {

class FamiliesTest : public testing::TestWithParam<size_t> {};

std::string LineOf(size_t i) {
  const jit::Arithmetic& arithmetic = jit::Arithmetics()[i];
  constexpr absl::string_view kLayouts[] = {"TN", "NN", "NT", "TT"};
  constexpr absl::string_view kConfigs[] = {"128x64 co2 s3", "64x32 pp s3 swap",
                                            "64x16 co1 s2", "128x32 pp s3 g0",
                                            "64x48 co1 s3 split2 swap"};
  const auto outputs = jit::OutputsOf(arithmetic.accumulator);
  // Two stages and a part of one; sums in f16 hold fewer integers.
  const int k = 2 * 1024 / jit::BitsOf(arithmetic.a) + 24;
  // The order in which clamped sums are made shows.
  const size_t configs = std::size(kConfigs) - (arithmetic.clamps ? 1 : 0);
  return absl::StrCat("x: ", jit::Name(arithmetic), " ",
                      kLayouts[i % std::size(kLayouts)], " 136 72 ", k,
                      " d=", jit::Name(outputs[i % outputs.size()]), " ; ",
                      kConfigs[i % configs], " ; 64 8 ", k - 16);
}

TEST_P(FamiliesTest, IsDefinedAndRight) {
  const auto parsed = ParseCase(LineOf(GetParam()));
  if (absl::IsUnimplemented(parsed.status())) {
    GTEST_SKIP() << parsed.status().message();
  }
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  SCOPED_TRACE(LineOf(GetParam()));
  ExpectRight(*parsed, 3);
}

INSTANTIATE_TEST_SUITE_P(All, FamiliesTest,
                         testing::Range(size_t{0}, jit::Arithmetics().size()),
                         [](const auto& info) {
                           return absl::StrReplaceAll(
                               jit::Name(jit::Arithmetics()[info.param]),
                               {{"-", "_"}});
                         });

}  // namespace
}  // namespace gemmd::emulator
