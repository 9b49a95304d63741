#include "clients/warmup/group_plans.h"

#include <cstddef>

#include "jit/plan/group_launches.h"
#include "jit/plan/tuned_plan.h"

namespace gemmd::warmup {

std::vector<PlannedProblem> PlanGroup(const jit::ProblemGroup& group,
                                      const jit::DeviceProperties& device) {
  std::vector<const jit::Problem*> problems;
  for (const jit::Problem& problem : group) problems.push_back(&problem);
  std::vector<PlannedProblem> planned;
  for (const std::vector<size_t>& launch : jit::GroupLaunches(problems)) {
    jit::ProblemGroup together;
    for (const size_t i : launch) together.push_back(group[i]);
    if (together.size() > 1) {
      const auto all = [](const jit::GroupPlan&) { return true; };
      if (const auto best = jit::ChooseGroupPlan(together, device, all)) {
        planned.push_back({together[0], jit::PlansOf({together.data(), 1},
                                                     device, *best)[0]});
        continue;
      }
    }
    for (const jit::Problem& problem : together) {
      planned.push_back({problem, jit::UntunedPlan(problem, device)});
    }
  }
  return planned;
}

}  // namespace gemmd::warmup
