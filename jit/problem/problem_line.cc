#include "jit/problem/problem_line.h"

#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "jit/base/status.h"
#include "jit/problem/problem_option.h"

namespace gemmd::jit {
namespace {

absl::Status ParseArithmetic(absl::string_view text, Problem& problem) {
  std::string names;
  for (const Arithmetic& arithmetic : Arithmetics()) {
    const std::string name = Name(arithmetic);
    absl::StrAppend(&names, names.empty() ? "" : ", ", name);
    if (name != text) continue;
    problem.SetArithmetic(arithmetic);
    return absl::OkStatus();
  }
  return WrongColumn("type", text, names);
}

absl::StatusOr<int64_t> ParseDimension(absl::string_view column,
                                       absl::string_view text) {
  int64_t value;
  if (!absl::SimpleAtoi(text, &value) || value < 0) {
    return WrongColumn(column, text, "an integer from 0");
  }
  return value;
}

absl::Status ParseOrders(absl::string_view letters, Problem& problem) {
  auto order = [](char letter) {
    return letter == 'N' ? Order::kColumnMajor : Order::kRowMajor;
  };
  if (letters != "NN" && letters != "NT" && letters != "TN" &&
      letters != "TT") {
    return WrongColumn("layout", letters, "NN, NT, TN, TT");
  }
  problem.a_order = order(letters[0]);
  problem.b_order = order(letters[1]);
  return absl::OkStatus();
}

}  // namespace

absl::string_view WithoutComment(absl::string_view line) {
  return absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
}

absl::StatusOr<Problem> ParseProblemLine(absl::string_view line) {
  const std::vector<absl::string_view> columns = absl::StrSplit(
      WithoutComment(line), absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (columns.size() < 5) {
    return WrongColumn("line", line, "TYPE LAYOUT M N K [OPTION=VALUE]...");
  }
  Problem problem;
  RETURN_IF_ERROR(ParseArithmetic(columns[0], problem));
  problem.d_order = Order::kColumnMajor;
  RETURN_IF_ERROR(ParseOrders(columns[1], problem));
  ASSIGN_OR_RETURN(problem.m, ParseDimension("m", columns[2]));
  ASSIGN_OR_RETURN(problem.n, ParseDimension("n", columns[3]));
  ASSIGN_OR_RETURN(problem.k, ParseDimension("k", columns[4]));
  for (size_t i = 5; i < columns.size(); ++i) {
    RETURN_IF_ERROR(ParseProblemOption(columns[i], problem));
  }
  RETURN_IF_ERROR(Validate(problem));
  return problem;
}

std::string ProblemLine(const Problem& problem) {
  auto letter = [](Order order) {
    return order == Order::kColumnMajor ? "N" : "T";
  };
  return absl::StrCat(Name(problem.arithmetic()), " ", letter(problem.a_order),
                      letter(problem.b_order), " ", problem.m, " ", problem.n,
                      " ", problem.k, ProblemOptions(problem));
}

}  // namespace gemmd::jit
