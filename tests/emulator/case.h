// A case: one instance and the products that run on it, as a line of text:
//
//   NAME: PROBLEM LINE ; CONFIG [; M N K, M N K, ...]
//   bf16_pp: bf16 TN 130 70 200 d=f32 ; 128x64 pp s3 sms2 ; 64 64 64, 1 1 1
//
// CONFIG is the tile, then, with their defaults: co1, co2, in4 or pp (co2),
// stages s3, groups in flight g1, split1 (k in so many parts), cl1 (the same,
// of the CTAs of a cluster), mc1 (CTAs that load Y for each other), sms2 (CTAs
// at once), swap (X is B), inplace (D is written where C is), balanced (the
// last units are shared out to the stage, where they can be), grouped (all
// shapes by one launch). Plain data.
#ifndef GEMMD_TESTS_EMULATOR_CASE_H_
#define GEMMD_TESTS_EMULATOR_CASE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "jit/plan/plan.h"
#include "jit/problem/problem.h"

namespace gemmd::emulator {

struct Case {
  std::string name;
  std::vector<jit::Problem> problems;  // At least one; of one family.
  jit::Config config;
  int splits = 1;
  int multiprocessors = 2;
  bool exchanged = false;
  bool in_place = false;

  // What one launch makes each: one of the problems, or all of them.
  std::vector<absl::Span<const jit::Problem>> launches() const;
  // How a problem runs, by the product's own arithmetic.
  jit::Plan PlanFor(const jit::Problem& problem) const;
};

// INVALID_ARGUMENT naming what is wrong.
absl::StatusOr<Case> ParseCase(absl::string_view line);
// Lines that are neither empty nor comments (#).
absl::StatusOr<std::vector<Case>> ReadCases(const std::string& path);

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_CASE_H_
