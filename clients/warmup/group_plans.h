// How a device makes a group of products. Pure function.
#ifndef GEMMD_CLIENTS_WARMUP_GROUP_PLANS_H_
#define GEMMD_CLIENTS_WARMUP_GROUP_PLANS_H_

#include <vector>

#include "jit/plan/plan.h"
#include "jit/plan/planner.h"
#include "jit/problem/group_line.h"

namespace gemmd::warmup {

struct PlannedProblem {
  jit::Problem problem;
  jit::Plan plan;
};

// One of each launch: its first product, with the plan of all. As the daemon
// chooses where no kernel is refused.
std::vector<PlannedProblem> PlanGroup(const jit::ProblemGroup& group,
                                      const jit::DeviceProperties& device);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_GROUP_PLANS_H_
