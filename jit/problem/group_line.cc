#include "jit/problem/group_line.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "jit/base/status.h"
#include "jit/problem/problem_line.h"
#include "jit/problem/problem_option.h"

namespace gemmd::jit {
namespace {

constexpr char kSizes[] =
    "M, MxNxK, or either with *COUNT, and then batch=N or "
    "broadcast=a|b|ab|none where it is not the line's, joined by +";

bool ParseSize(absl::string_view text, Problem& problem) {
  const std::vector<absl::string_view> sides = absl::StrSplit(text, 'x');
  if (sides.size() == 1) return absl::SimpleAtoi(text, &problem.m);
  return sides.size() == 3 && absl::SimpleAtoi(sides[0], &problem.m) &&
         absl::SimpleAtoi(sides[1], &problem.n) &&
         absl::SimpleAtoi(sides[2], &problem.k);
}

// What may be another one for each product.
absl::Status ParseOwnOption(absl::string_view text, Problem& problem) {
  if (absl::StartsWith(text, "batch=") ||
      absl::StartsWith(text, "broadcast=")) {
    return ParseProblemOption(text, problem);
  }
  return WrongColumn("size", text, kSizes);
}

bool SameBatch(const Problem& a, const Problem& b) {
  return a.batch == b.batch && a.a_broadcast == b.a_broadcast &&
         a.b_broadcast == b.b_broadcast;
}

bool SameSizes(const Problem& a, const Problem& b) {
  return a.m == b.m && a.n == b.n && a.k == b.k && SameBatch(a, b);
}

std::string OwnOptions(const Problem& problem) {
  const std::string broadcast = absl::StrCat(problem.a_broadcast ? "a" : "",
                                             problem.b_broadcast ? "b" : "");
  return absl::StrCat(" batch=", problem.batch,
                      " broadcast=", broadcast.empty() ? "none" : broadcast);
}

}  // namespace

void ProblemList::Add(const ProblemList& more) {
  problems.insert(problems.end(), more.problems.begin(), more.problems.end());
  groups.insert(groups.end(), more.groups.begin(), more.groups.end());
}

absl::StatusOr<ProblemGroup> ParseGroupLine(absl::string_view line) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(WithoutComment(line), absl::MaxSplits(';', 1));
  ASSIGN_OR_RETURN(const Problem common,
                   ParseProblemLine(absl::StripAsciiWhitespace(parts.first)));
  ProblemGroup group;
  for (absl::string_view word : absl::StrSplit(parts.second, '+')) {
    const std::vector<absl::string_view> columns =
        absl::StrSplit(word, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    word = columns.empty() ? "" : columns[0];
    const std::vector<absl::string_view> factors = absl::StrSplit(word, '*');
    Problem problem = common;
    int64_t count = 1;
    if (factors.size() > 2 || !ParseSize(factors[0], problem) ||
        (factors.size() == 2 && !absl::SimpleAtoi(factors[1], &count)) ||
        count < 1) {
      return WrongColumn("size", word, kSizes);
    }
    if (count > kMaxGroupProducts - std::ssize(group)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the group has more than ", kMaxGroupProducts,
                       " products; allowed: 1 to ", kMaxGroupProducts));
    }
    for (size_t i = 1; i < columns.size(); ++i) {
      RETURN_IF_ERROR(ParseOwnOption(columns[i], problem));
    }
    RETURN_IF_ERROR(Validate(problem));
    group.insert(group.end(), count, problem);
  }
  return group;
}

absl::StatusOr<ProblemList> ParseProblemList(absl::string_view text) {
  ProblemList list;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = WithoutComment(line);
    if (line.empty()) continue;
    absl::Status wrong;
    if (line.find(';') != line.npos) {
      absl::StatusOr<ProblemGroup> group = ParseGroupLine(line);
      if (group.ok()) list.groups.push_back(*std::move(group));
      wrong = group.status();
    } else {
      absl::StatusOr<Problem> problem = ParseProblemLine(line);
      if (problem.ok()) list.problems.push_back(*problem);
      wrong = problem.status();
    }
    if (!wrong.ok()) {
      return absl::Status(wrong.code(),
                          absl::StrCat("line ", number, ": ", wrong.message()));
    }
  }
  return list;
}

std::string GroupLine(absl::Span<const Problem> group) {
  const Problem& first = group[0];
  const bool by_rows =
      std::all_of(group.begin(), group.end(), [&](const Problem& problem) {
        return problem.n == first.n && problem.k == first.k;
      });
  std::string line = absl::StrCat(ProblemLine(first), " ; ");
  for (size_t i = 0, next = 0; i < group.size(); i = next) {
    while (next < group.size() && SameSizes(group[i], group[next])) ++next;
    absl::StrAppend(&line, i == 0 ? "" : "+", group[i].m);
    if (!by_rows) absl::StrAppend(&line, "x", group[i].n, "x", group[i].k);
    if (next > i + 1) absl::StrAppend(&line, "*", next - i);
    if (!SameBatch(group[i], first)) {
      absl::StrAppend(&line, OwnOptions(group[i]));
    }
  }
  return line;
}

}  // namespace gemmd::jit
