// Problem -> plan, by a cost model; nothing is measured on the request path.
// Pure functions, thread-safe.
#ifndef GEMMD_JIT_PLAN_PLANNER_H_
#define GEMMD_JIT_PLAN_PLANNER_H_

#include <optional>
#include <vector>

#include "jit/plan/plan.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

// What the cost model knows of a device. The defaults are an H100 SXM.
struct DeviceProperties {
  int multiprocessors = 132;
  int shared_memory_bytes = 232448;  // Most that one CTA may use.
};

// The plan of least predicted time. `problem` is valid and writes().
Plan ChoosePlan(const Problem& problem, const DeviceProperties& device);

// How `problem` runs with a given kernel, which need not be the best one.
// Null when the kernel is of another family, or one that shares k.
std::optional<Plan> PlanWith(const Problem& problem,
                             const DeviceProperties& device,
                             const Family& family, const Config& config);

// All that split nothing and whose CTAs are each for themselves, in no order
// and not complete (CompletePlan).
std::vector<Plan> UnsplitPlans(const Problem& problem,
                               const DeviceProperties& device);

// The `count` best plans in order of predicted time, for tuners and tests.
std::vector<Plan> RankPlans(const Problem& problem,
                            const DeviceProperties& device, int count);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_PLANNER_H_
