#include "tests/bench/grouped/group_file.h"

#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "jit/base/status.h"
#include "jit/problem/problem_line.h"

namespace gemmd::bench {
namespace {

absl::StatusOr<NamedGroup> ParseGroup(absl::string_view line) {
  const std::pair<absl::string_view, absl::string_view> named =
      absl::StrSplit(line, absl::MaxSplits(':', 1));
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(named.second, absl::MaxSplits(';', 1));
  NamedGroup group = {.name = std::string(named.first)};
  ASSIGN_OR_RETURN(
      jit::Problem problem,
      jit::ParseProblemLine(absl::StripAsciiWhitespace(parts.first)));
  for (absl::string_view size : absl::StrSplit(parts.second, '+')) {
    const std::vector<absl::string_view> sides = absl::StrSplit(size, 'x');
    const bool right = sides.size() == 1
                           ? absl::SimpleAtoi(size, &problem.m)
                           : sides.size() == 3 &&
                                 absl::SimpleAtoi(sides[0], &problem.m) &&
                                 absl::SimpleAtoi(sides[1], &problem.n) &&
                                 absl::SimpleAtoi(sides[2], &problem.k);
    if (!right || problem.m < 0) {
      return absl::InvalidArgumentError(absl::StrCat("a size is '", size, "'"));
    }
    if (problem.m > 0) group.problems.push_back(problem);
  }
  if (group.problems.empty()) {
    return absl::InvalidArgumentError("nothing but empty products");
  }
  return group;
}

}  // namespace

absl::StatusOr<std::vector<NamedGroup>> ReadGroups(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return absl::InvalidArgumentError(absl::StrCat(path, " cannot be read"));
  }
  std::vector<NamedGroup> groups;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    auto group = ParseGroup(line);
    if (!group.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": '", line.substr(0, 60), "': ", group.status().message()));
    }
    groups.push_back(*std::move(group));
  }
  return groups;
}

}  // namespace gemmd::bench
