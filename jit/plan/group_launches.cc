#include "jit/plan/group_launches.h"

#include <algorithm>

#include "jit/problem/sizes.h"

namespace gemmd::jit {
namespace {

// Of the best plans, for when some may not run. Which of equal ones comes first
// depends on it.
constexpr int kMaxGroupPlans = 12;

}  // namespace

std::vector<std::vector<size_t>> GroupLaunches(
    absl::Span<const Problem* const> problems) {
  std::vector<std::vector<size_t>> launches;
  std::vector<double> tiles;  // Of each launch, at most: kernels count them.
  // What may not go together is alone, and nothing joins it.
  const auto may = [&](size_t i) { return MayGoTogether(*problems[i]); };
  for (size_t i = 0; i < problems.size(); ++i) {
    const Problem& problem = *problems[i];
    if (!problem.writes()) continue;
    const double more = MostTiles(problem);
    const auto takes = [&](const std::vector<size_t>& launch) {
      return launch.size() < kMaxProducts &&
             tiles[&launch - launches.data()] + more <= kMaxTiles &&
             may(launch[0]) && GoTogether(*problems[launch[0]], problem);
    };
    const auto found =
        may(i) ? std::ranges::find_if(launches, takes) : launches.end();
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
  for (const GroupPlan& group :
       RankGroupPlans(problems, device, sources.unsplit, kMaxGroupPlans)) {
    if (!may_run(group)) continue;
    if (!PaysTogether(problems, group, sources.alone)) return std::nullopt;
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
