#include "jit/problem/problem_line.h"

#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

constexpr DataType kNamedTypes[] = {
    DataType::kF32,  DataType::kF16,  DataType::kBf16,
    DataType::kE4m3, DataType::kE5m2, DataType::kS8,
    DataType::kU8,   DataType::kB1,   DataType::kS32};

absl::Status Wrong(absl::string_view column, absl::string_view value,
                   absl::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(column, " is '", value, "'; allowed: ", allowed));
}

absl::StatusOr<DataType> ParseType(absl::string_view column,
                                   absl::string_view text) {
  for (DataType type : kNamedTypes) {
    if (Name(type) == text) return type;
  }
  return Wrong(column, text, "an element type such as bf16, f16, f32");
}

absl::StatusOr<int64_t> ParseDimension(absl::string_view column,
                                       absl::string_view text) {
  int64_t value;
  if (!absl::SimpleAtoi(text, &value) || value < 0) {
    return Wrong(column, text, "an integer from 0");
  }
  return value;
}

absl::StatusOr<float> ParseScalar(absl::string_view column,
                                  absl::string_view text) {
  float value;
  if (!absl::SimpleAtof(text, &value)) return Wrong(column, text, "a number");
  return value;
}

absl::Status ParseOrders(absl::string_view letters, Problem& problem) {
  auto order = [](char letter) {
    return letter == 'N' ? Order::kColumnMajor : Order::kRowMajor;
  };
  if (letters != "NN" && letters != "NT" && letters != "TN" &&
      letters != "TT") {
    return Wrong("layout", letters, "NN, NT, TN, TT");
  }
  problem.a_order = order(letters[0]);
  problem.b_order = order(letters[1]);
  return absl::OkStatus();
}

absl::Status ParseOption(absl::string_view text, Problem& problem) {
  const std::pair<absl::string_view, absl::string_view> option =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  const auto [name, value] = option;
  if (name == "d") {
    ASSIGN_OR_RETURN(problem.d_type, ParseType("d", value));
    problem.c_type = problem.d_type;
  } else if (name == "alpha") {
    ASSIGN_OR_RETURN(problem.alpha, ParseScalar("alpha", value));
  } else if (name == "beta") {
    ASSIGN_OR_RETURN(problem.beta, ParseScalar("beta", value));
  } else if (name == "order") {
    if (value != "row" && value != "column") {
      return Wrong("order", value, "row, column");
    }
    problem.d_order = value == "row" ? Order::kRowMajor : Order::kColumnMajor;
  } else {
    return Wrong("option", text, "d=, alpha=, beta=, order=");
  }
  return absl::OkStatus();
}

absl::string_view WithoutComment(absl::string_view line) {
  return absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
}

}  // namespace

absl::StatusOr<Problem> ParseProblemLine(absl::string_view line) {
  const std::vector<absl::string_view> columns = absl::StrSplit(
      WithoutComment(line), absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (columns.size() < 5) {
    return Wrong("line", line, "TYPE LAYOUT M N K [OPTION=VALUE]...");
  }
  Problem problem;
  ASSIGN_OR_RETURN(problem.a_type, ParseType("type", columns[0]));
  problem.b_type = problem.c_type = problem.d_type = problem.a_type;
  problem.d_order = Order::kColumnMajor;
  RETURN_IF_ERROR(ParseOrders(columns[1], problem));
  ASSIGN_OR_RETURN(problem.m, ParseDimension("m", columns[2]));
  ASSIGN_OR_RETURN(problem.n, ParseDimension("n", columns[3]));
  ASSIGN_OR_RETURN(problem.k, ParseDimension("k", columns[4]));
  for (size_t i = 5; i < columns.size(); ++i) {
    RETURN_IF_ERROR(ParseOption(columns[i], problem));
  }
  RETURN_IF_ERROR(Validate(problem));
  return problem;
}

absl::StatusOr<std::vector<Problem>> ParseProblemLines(absl::string_view text) {
  std::vector<Problem> problems;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (WithoutComment(line).empty()) continue;
    absl::StatusOr<Problem> problem = ParseProblemLine(line);
    if (!problem.ok()) {
      return absl::Status(
          problem.status().code(),
          absl::StrCat("line ", number, ": ", problem.status().message()));
    }
    problems.push_back(*std::move(problem));
  }
  return problems;
}

std::string ProblemLine(const Problem& problem) {
  auto letter = [](Order order) {
    return order == Order::kColumnMajor ? "N" : "T";
  };
  std::string line = absl::StrCat(
      Name(problem.a_type), " ", letter(problem.a_order),
      letter(problem.b_order), " ", problem.m, " ", problem.n, " ", problem.k);
  if (problem.d_type != problem.a_type) {
    absl::StrAppend(&line, " d=", Name(problem.d_type));
  }
  if (problem.alpha != 1)
    absl::StrAppendFormat(&line, " alpha=%.9g", problem.alpha);
  if (problem.beta != 0)
    absl::StrAppendFormat(&line, " beta=%.9g", problem.beta);
  if (problem.d_order == Order::kRowMajor) absl::StrAppend(&line, " order=row");
  return line;
}

}  // namespace gemmd::jit
