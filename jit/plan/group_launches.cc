#include "jit/plan/group_launches.h"

#include <algorithm>
#include <array>
#include <map>

#include "jit/plan/cost_model.h"
#include "jit/problem/sizes.h"

namespace gemmd::jit {
namespace {

// Of the best plans, for when some may not run. Which of equal ones comes first
// depends on it.
constexpr int kMaxGroupPlans = 12;
// As in group_plan.cc, whose functions know nothing from before.
constexpr size_t kMany = 8;
constexpr double kLaunchCycles = 3000;

// Products of the same sizes count together.
std::vector<GroupedProduct> Counted(absl::Span<const Problem> problems) {
  std::map<std::array<int64_t, 3>, int64_t> counts;
  for (const Problem& problem : problems) {
    const Problem p = Folded(problem);
    counts[{p.m, p.n, p.k}] += p.batch;
  }
  std::vector<GroupedProduct> products;
  for (const auto& [sizes, count] : counts) {
    products.push_back({sizes[0], sizes[1], sizes[2], count});
  }
  return products;
}

// As RankGroupPlans.
std::vector<GroupPlan> Ranked(absl::Span<const Problem> problems,
                              const DeviceProperties& device,
                              absl::Span<const Plan> unsplit) {
  const std::vector<GroupedProduct> products = Counted(problems);
  std::vector<GroupPlan> groups;
  groups.reserve(unsplit.size());
  for (const Plan& plan : unsplit) {
    groups.push_back({plan.family, plan.config,
                      PredictGroupCycles(plan, products, device)});
    groups.back().config.grouped = true;
  }
  const auto end =
      groups.begin() + std::min<ptrdiff_t>(kMaxGroupPlans, std::ssize(groups));
  std::partial_sort(groups.begin(), end, groups.end(),
                    [](const GroupPlan& a, const GroupPlan& b) {
                      return a.predicted_cycles < b.predicted_cycles;
                    });
  groups.erase(end, groups.end());
  return groups;
}

// As PaysTogether.
bool Pays(absl::Span<const Problem> problems, const GroupPlan& group,
          absl::FunctionRef<double(const Problem&)> alone) {
  double apart = static_cast<double>(problems.size()) * kLaunchCycles;
  if (problems.size() > kMany) {
    const auto products = [](const Problem& p) {
      return static_cast<double>(p.m) * static_cast<double>(p.n) *
             static_cast<double>(p.k) * static_cast<double>(p.batch);
    };
    apart += static_cast<double>(problems.size()) *
             alone(*std::ranges::max_element(problems, {}, products));
  } else {
    for (const Problem& problem : problems) apart += alone(problem);
  }
  return kLaunchCycles + group.predicted_cycles < apart;
}

}  // namespace

std::vector<std::vector<size_t>> GroupLaunches(
    absl::Span<const Problem* const> problems) {
  std::vector<std::vector<size_t>> launches;
  std::vector<double> tiles;  // Of each launch, at most: kernels count them.
  for (size_t i = 0; i < problems.size(); ++i) {
    const Problem& problem = *problems[i];
    if (!problem.writes()) continue;
    const double more = MostTiles(problem);
    const auto takes = [&](const std::vector<size_t>& launch) {
      return launch.size() < kMaxProducts &&
             tiles[&launch - launches.data()] + more <= kMaxTiles &&
             GoTogether(*problems[launch[0]], problem);
    };
    const auto found = MayGoTogether(problem)
                           ? std::ranges::find_if(launches, takes)
                           : launches.end();
    const size_t at = found - launches.begin();
    if (found == launches.end()) {
      launches.emplace_back();
      tiles.push_back(0);
    }
    launches[at].push_back(i);
    tiles[at] += more;
  }
  return launches;
}

std::optional<GroupPlan> ChooseGroupPlan(
    absl::Span<const Problem> problems, const DeviceProperties& device,
    absl::FunctionRef<bool(const GroupPlan&)> may_run,
    const GroupSources& sources) {
  for (const GroupPlan& group : Ranked(problems, device, sources.unsplit)) {
    if (!may_run(group)) continue;
    if (!Pays(problems, group, sources.alone)) return std::nullopt;
    return group;
  }
  return std::nullopt;
}

std::optional<GroupPlan> ChooseGroupPlan(
    absl::Span<const Problem> problems, const DeviceProperties& device,
    absl::FunctionRef<bool(const GroupPlan&)> may_run) {
  const std::vector<Plan> unsplit = UnsplitPlans(problems[0], device);
  const auto alone = [&](const Problem& problem) {
    return ChoosePlan(problem, device).predicted_cycles;
  };
  return ChooseGroupPlan(problems, device, may_run, {unsplit, alone});
}

}  // namespace gemmd::jit
