// Groups of problems as lines of text: products of one call that differ in
// little but their sizes, such as those of the experts of a mixture.
//
//   bf16 TN 1 4096 7168 order=row ; 13+12+0+7*252
//   bf16 TN 1 1 1 ; 488x496x312+976x992x624
//   bf16 TN 1 1 8 batch=300 ; 16+5 batch=1 broadcast=none
//
// A problem line (problem_line.h), ";", and a size for each product: its m,
// where n and k are those of the line, or MxNxK. SIZE*COUNT stands for COUNT of
// that size; batch and broadcast follow where they are not those of the line.
// Pure functions, thread-safe.
#ifndef GEMMD_JIT_PROBLEM_GROUP_LINE_H_
#define GEMMD_JIT_PROBLEM_GROUP_LINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

using ProblemGroup = std::vector<Problem>;

// Products of one call, at most.
inline constexpr int64_t kMaxGroupProducts = 256;

struct ProblemList {
  std::vector<Problem> problems;
  std::vector<ProblemGroup> groups;

  bool empty() const { return problems.empty() && groups.empty(); }
  void Add(const ProblemList& more);
};

// Valid problems, or an error as of ParseProblemLine.
absl::StatusOr<ProblemGroup> ParseGroupLine(absl::string_view line);

// Every line of `text` that is neither empty nor a comment: one of a problem,
// or of a group. Errors carry the number of the line, from 1.
absl::StatusOr<ProblemList> ParseProblemList(absl::string_view text);

// The line that parses to `group`, whose problems differ in sizes, batch and
// broadcast alone; of scalars it has those of the first. It is not empty.
std::string GroupLine(absl::Span<const Problem> group);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_GROUP_LINE_H_
