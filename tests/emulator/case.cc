#include "tests/emulator/case.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "jit/base/status.h"
#include "jit/plan/launch_arithmetic.h"
#include "jit/plan/planner.h"
#include "jit/problem/problem_line.h"

namespace gemmd::emulator {
namespace {

absl::Status Wrong(absl::string_view what, absl::string_view value) {
  return absl::InvalidArgumentError(
      absl::StrCat("case: ", what, " is '", value, "'"));
}

absl::Status ParseWord(absl::string_view word, Case& c) {
  int number = 0;
  const auto is = [&](absl::string_view name) {
    absl::string_view rest = word;
    return absl::ConsumePrefix(&rest, name) && absl::SimpleAtoi(rest, &number);
  };
  const auto tile = std::vector<std::string>(absl::StrSplit(word, 'x'));
  if (tile.size() == 2 && absl::SimpleAtoi(tile[0], &c.config.tile_m) &&
      absl::SimpleAtoi(tile[1], &c.config.tile_n)) {
    return absl::OkStatus();
  }
  if (word == "pp") {
    c.config.schedule = jit::Schedule::kPingPong;
  } else if (word == "swap") {
    c.exchanged = true;
  } else if (word == "grouped") {
    c.config.grouped = true;
  } else if (word == "inplace") {
    c.in_place = true;
  } else if (word == "balanced") {
    c.config.balanced = true;
  } else if (is("co")) {
    c.config.consumers = number;
  } else if (is("in")) {
    c.config.schedule = jit::Schedule::kInterleaved;
    c.config.consumers = c.splits = number;
  } else if (is("cl")) {
    c.config.cluster = c.splits = number;
  } else if (is("mc")) {
    c.config.multicast = number;
  } else if (is("sms")) {
    c.multiprocessors = number;
  } else if (is("split")) {
    c.splits = number;
    c.config.split_k = true;
  } else if (is("s")) {
    c.config.stages = number;
  } else if (is("g")) {
    c.config.groups_in_flight = number;
  } else {
    return Wrong("a word of the config", word);
  }
  return absl::OkStatus();
}

absl::Status ParseShapes(absl::string_view text, Case& c) {
  for (absl::string_view shape :
       absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> sides =
        absl::StrSplit(shape, ' ', absl::SkipEmpty());
    jit::Problem problem = c.problems[0];
    if (sides.size() != 3 || !absl::SimpleAtoi(sides[0], &problem.m) ||
        !absl::SimpleAtoi(sides[1], &problem.n) ||
        !absl::SimpleAtoi(sides[2], &problem.k)) {
      return Wrong("a shape", shape);
    }
    c.problems.push_back(problem);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Case> ParseCase(absl::string_view line) {
  Case c;
  c.config = {.stages = 3, .schedule = jit::Schedule::kCooperative};
  const std::pair<absl::string_view, absl::string_view> named =
      absl::StrSplit(line, absl::MaxSplits(':', 1));
  c.name = std::string(absl::StripAsciiWhitespace(named.first));
  const std::vector<absl::string_view> parts =
      absl::StrSplit(named.second, ';');
  if (parts.size() < 2 || parts.size() > 3) return Wrong("a line", line);
  ASSIGN_OR_RETURN(const jit::Problem problem,
                   jit::ParseProblemLine(absl::StripAsciiWhitespace(parts[0])));
  c.problems.push_back(problem);
  for (absl::string_view word :
       absl::StrSplit(parts[1], ' ', absl::SkipEmpty())) {
    RETURN_IF_ERROR(ParseWord(word, c));
  }
  if (parts.size() == 3) RETURN_IF_ERROR(ParseShapes(parts[2], c));
  return c;
}

absl::StatusOr<std::vector<Case>> ReadCases(const std::string& path) {
  std::vector<Case> cases;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    ASSIGN_OR_RETURN(Case c, ParseCase(line));
    cases.push_back(std::move(c));
  }
  if (cases.empty()) return Wrong("a file without cases", path);
  return cases;
}

std::vector<absl::Span<const jit::Problem>> Case::launches() const {
  if (config.grouped) return {problems};
  std::vector<absl::Span<const jit::Problem>> single;
  for (const jit::Problem& problem : problems) single.push_back({&problem, 1});
  return single;
}

jit::Plan Case::PlanFor(const jit::Problem& problem) const {
  jit::Plan plan;
  // Any plan of the wanted orientation: family and forms are its.
  for (const jit::Plan& ranked : jit::RankPlans(problem, {}, 100000)) {
    plan = ranked;
    if (plan.exchanged == exchanged || plan.splits == 0) break;
  }
  if (plan.splits == 0) return plan;  // An empty product: the reduction alone.
  plan.config = config;
  if (plan.family.sum != jit::Summation::kDirect) {
    plan.config.groups_in_flight = 0;
  }
  // A part of k has one stage at least.
  const int64_t stages =
      jit::DivideUp(jit::DepthBytes(plan), kSwizzleBytes) *
      (plan.a_form == jit::Form::kSplit ? kSplitPasses : 1);
  plan.splits = static_cast<int>(std::min<int64_t>(splits, stages));
  plan.partials_bytes = 0;
  // A device has room for a cluster.
  const jit::DeviceProperties device = {
      .multiprocessors = std::max(multiprocessors, jit::ClusterCtas(config))};
  plan.balanced_units = jit::BalancedUnits(plan, device);
  plan.reduce_grid = 0;
  plan.x_planes = plan.y_planes = 0;
  plan.passes = 1;
  jit::CompletePlan(problem, device, plan);
  return plan;
}

}  // namespace gemmd::emulator
