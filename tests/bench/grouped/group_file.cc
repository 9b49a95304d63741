#include "tests/bench/grouped/group_file.h"

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "jit/base/status.h"
#include "jit/problem/group_line.h"

namespace gemmd::bench {
namespace {

absl::StatusOr<NamedGroup> ParseGroup(absl::string_view line) {
  const std::pair<absl::string_view, absl::string_view> named =
      absl::StrSplit(line, absl::MaxSplits(':', 1));
  NamedGroup group = {.name = std::string(named.first)};
  ASSIGN_OR_RETURN(group.problems, jit::ParseGroupLine(named.second));
  std::erase_if(group.problems,
                [](const jit::Problem& problem) { return problem.m == 0; });
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
