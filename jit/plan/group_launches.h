// Which products of one call go together, and with which kernel: what the
// daemon does, and what gemm-warmup prepares for. Pure functions, thread-safe.
#ifndef GEMMD_JIT_PLAN_GROUP_LAUNCHES_H_
#define GEMMD_JIT_PLAN_GROUP_LAUNCHES_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "jit/plan/group_plan.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

// Those of `problems` that write something, by their number: each element is
// what one launch may make, if that pays (group_plan.h).
std::vector<std::vector<size_t>> GroupLaunches(
    absl::Span<const Problem* const> problems);

// The best plan for `problems`, of one such launch, of those that `may_run`
// takes; nothing where they are predicted to be faster apart.
std::optional<GroupPlan> ChooseGroupPlan(
    absl::Span<const Problem> problems, const DeviceProperties& device,
    absl::FunctionRef<bool(const GroupPlan&)> may_run);

// What of that takes long, for who remembers it.
struct GroupSources {
  // UnsplitPlans of any product that goes together with `problems`.
  absl::Span<const Plan> unsplit;
  // Predicted cycles of the plan that the planner chooses for one of them.
  absl::FunctionRef<double(const Problem&)> alone;
};
std::optional<GroupPlan> ChooseGroupPlan(
    absl::Span<const Problem> problems, const DeviceProperties& device,
    absl::FunctionRef<bool(const GroupPlan&)> may_run,
    const GroupSources& sources);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_GROUP_LAUNCHES_H_
