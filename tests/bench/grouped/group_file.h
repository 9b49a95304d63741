// Groups of products to time, one a line:
//
//   NAME: GROUP LINE
//   qwen3_up: bf16 TN 1 768 2048 order=row ; 13+12+0+11
//
// As jit/problem/group_line.h has them. Products of no rows are left out. Plain
// data.
#ifndef GEMMD_TESTS_BENCH_GROUPED_GROUP_FILE_H_
#define GEMMD_TESTS_BENCH_GROUPED_GROUP_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/problem/problem.h"

namespace gemmd::bench {

struct NamedGroup {
  std::string name;
  std::vector<jit::Problem> problems;  // At least one.
};

// INVALID_ARGUMENT naming the line that is wrong.
absl::StatusOr<std::vector<NamedGroup>> ReadGroups(const std::string& path);

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_GROUPED_GROUP_FILE_H_
