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

// Cases of an arithmetic: every layout and store, the outputs in turn.
constexpr size_t kCases = 2;

// What the layout and the config of an arithmetic have to be: an operand that
// only X can be, and along which its lines run.
struct Needs {
  bool a = false;
  bool b = false;
  bool along_k = false;
};
Needs NeedsOf(const jit::Arithmetic& arithmetic, bool quantized) {
  if (jit::IsMixed(arithmetic.a, arithmetic.b)) {
    const bool b = jit::WeightsAreB(arithmetic.a, arithmetic.b);
    return {!b, b, quantized};
  }
  return {arithmetic.sparse == jit::Sparse::kA,
          arithmetic.sparse == jit::Sparse::kB, true};
}

// Number `i` counts the cases of all.
std::string LineOf(size_t i) {
  const jit::Arithmetic& arithmetic = jit::Arithmetics()[i / kCases];
  // The second case of an arithmetic has the opposite layout.
  constexpr absl::string_view kLayouts[] = {"TN", "NT", "NN", "TT"};
  constexpr absl::string_view kConfigs[] = {
      "128x64 co2 s3",       "64x32 pp s3 swap",
      "64x16 co1 s2",        "128x32 pp s3 g0",
      "64x48 co1 s3",        "128x16 co2 s4 swap",
      "64x64 pp s3",         "64x48 co1 s3 split2 swap",
      "64x32 co1 s2 split3", "64x48 co1 s3 cl2 swap"};
  const auto outputs = jit::OutputsOf(arithmetic.accumulator);
  std::string layout(kLayouts[(i + i / 4) % std::size(kLayouts)]);
  const bool mixed = jit::IsMixed(arithmetic.a, arithmetic.b);
  const bool quantized = mixed && i % kCases == 1;
  const Needs needs = NeedsOf(arithmetic, quantized);
  if (needs.a && needs.along_k) layout[0] = 'T';
  if (needs.b && needs.along_k) layout[1] = 'N';
  // Two stages and a part of one; sums in f16 hold few integers.
  const int k = 2 * 1024 / jit::BitsOf(arithmetic.a) + 24;
  // The order in which clamped sums are made shows. Clusters send words.
  const bool words = !mixed && arithmetic.accumulator != jit::DataType::kF16;
  const size_t configs = std::size(kConfigs) - (arithmetic.clamps ? 3
                                                : words           ? 0
                                                                  : 1);
  std::string config(kConfigs[i % configs]);
  if (needs.a || needs.b) {
    absl::StrReplaceAll({{" swap", ""}}, &config);
    config += needs.b ? " g0 swap" : " g0";
  }
  std::string options;
  if (quantized) {
    constexpr absl::string_view kGroups[] = {" group=32", " group=64",
                                             " group=128", " group=k"};
    options = std::string(kGroups[i / kCases % std::size(kGroups)]);
    const int least = std::min(BitsOf(arithmetic.a), BitsOf(arithmetic.b));
    if (least == 4 && i / kCases / 4 % 2 == 0) options += " zero_points";
  }
  const bool by_rows = i / 3 % 2 == 1;
  return absl::StrCat("x: ", jit::Name(arithmetic), " ", layout, " 136 72 ", k,
                      " d=", jit::Name(outputs[i % outputs.size()]),
                      by_rows ? " order=row" : "", options, " ; ", config,
                      " ; 64 8 ", k - 16);
}

class FamiliesTest : public testing::TestWithParam<size_t> {};

TEST_P(FamiliesTest, IsDefinedAndRight) {
  const auto parsed = ParseCase(LineOf(GetParam()));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  SCOPED_TRACE(LineOf(GetParam()));
  ExpectRight(*parsed, {.first = 100 + 3 * GetParam(), .count = 2});
}

INSTANTIATE_TEST_SUITE_P(
    All, FamiliesTest,
    testing::Range(size_t{0}, kCases* jit::Arithmetics().size()),
    [](const auto& info) {
      const std::string name =
          jit::Name(jit::Arithmetics()[info.param / kCases]);
      return absl::StrCat(absl::StrReplaceAll(name, {{"-", "_"}}), "_",
                          info.param % kCases);
    });

}  // namespace
}  // namespace gemmd::emulator
