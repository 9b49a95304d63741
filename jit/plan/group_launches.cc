#include "jit/plan/group_launches.h"

#include <algorithm>

namespace gemmd::jit {
namespace {

// Of the best plans, for when some may not run. Which of equal ones comes first
// depends on it.
constexpr int kMaxGroupPlans = 12;

}  // namespace

std::vector<std::vector<size_t>> GroupLaunches(
    absl::Span<const Problem* const> problems) {
  std::vector<std::vector<size_t>> launches;
  for (size_t i = 0; i < problems.size(); ++i) {
    const Problem& problem = *problems[i];
    if (!problem.writes()) continue;
    const auto found =
        MayGoTogether(problem)
            ? std::ranges::find_if(launches,
                                   [&](const std::vector<size_t>& launch) {
                                     return launch.size() < kMaxProducts &&
                                            GoTogether(*problems[launch[0]],
                                                       problem);
                                   })
            : launches.end();
    (found == launches.end() ? launches.emplace_back() : *found).push_back(i);
  }
  return launches;
}

std::optional<GroupPlan> ChooseGroupPlan(
    absl::Span<const Problem> problems, const DeviceProperties& device,
    absl::FunctionRef<bool(const GroupPlan&)> may_run) {
  for (const GroupPlan& group :
       RankGroupPlans(problems, device, kMaxGroupPlans)) {
    if (!may_run(group)) continue;
    if (!PaysTogether(problems, device, group)) return std::nullopt;
    return group;
  }
  return std::nullopt;
}

}  // namespace gemmd::jit
