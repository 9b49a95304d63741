#include "jit/plan/tuned_plan.h"

#include <algorithm>
#include <cmath>

#include "jit/base/status.h"
#include "jit/plan/launch_arithmetic.h"

namespace gemmd::jit {
namespace {

// Plans that the planner looks at closely for a single one, so that so many
// cost little more; and more than there are.
constexpr int kShortlist = 64;
constexpr int kAllPlans = 1 << 20;

void Truncate(std::vector<Plan>& plans, int count) {
  if (plans.size() > static_cast<size_t>(count)) {
    plans.resize(static_cast<size_t>(count));
  }
}

bool IsOf(const TuningRecord& record, const Plan& plan) {
  return record.exchanged == plan.exchanged && record.splits == plan.splits &&
         record.kernel == KernelName(plan.family, plan.config);
}

}  // namespace

Plan UntunedPlan(const Problem& problem, const DeviceProperties& device) {
  // Few of the best are balanced, and most of all are not.
  std::vector<Plan> plans;
  auto chosen = plans.end();
  for (const int count : {1, kShortlist, kAllPlans}) {
    plans = RankPlans(problem, device, count);
    chosen = std::ranges::find(
        plans, false, [](const Plan& plan) { return plan.config.balanced; });
    if (chosen != plans.end()) break;
  }
  CHECK(chosen != plans.end());
  return std::move(*chosen);
}

std::optional<Plan> TunedPlan(const TuningRecord& record,
                              const Problem& problem,
                              const DeviceProperties& device) {
  // Most records name a plan of the shortlist, which is quicker to make.
  for (const int count : {kShortlist, kAllPlans}) {
    for (Plan& plan : RankPlans(problem, device, count)) {
      if (!IsOf(record, plan)) continue;
      if (record.raster_group > DivideUp(plan.rows, plan.config.tile_m)) {
        return std::nullopt;
      }
      plan.raster_group = record.raster_group;
      return std::move(plan);
    }
  }
  return std::nullopt;
}

std::vector<Plan> RankPlansOfSplits(const Problem& problem,
                                    const DeviceProperties& device, int splits,
                                    int count) {
  std::vector<Plan> plans;
  for (const int of : {kShortlist, kAllPlans}) {
    plans = RankPlans(problem, device, of);
    std::erase_if(plans,
                  [splits](const Plan& plan) { return plan.splits != splits; });
    if (plans.size() >= static_cast<size_t>(count)) break;
  }
  Truncate(plans, count);
  return plans;
}

std::vector<Plan> PlansInstead(const Problem& problem,
                               const DeviceProperties& device, int splits,
                               int count) {
  std::vector<Plan> plans = RankPlans(problem, device, kShortlist);
  std::ranges::stable_partition(
      plans, [splits](const Plan& plan) { return plan.splits == splits; });
  Truncate(plans, count);
  return plans;
}

bool SameLaunch(const Plan& a, const Plan& b) {
  return a.family == b.family && a.config == b.config &&
         a.exchanged == b.exchanged && a.splits == b.splits &&
         a.raster_group == b.raster_group;
}

TuningRecord RecordOf(const Plan& plan, const Problem& problem) {
  return {.problem_class = ProblemClass(problem),
          .kernel = KernelName(plan.family, plan.config),
          .exchanged = plan.exchanged,
          .splits = plan.splits,
          .raster_group = plan.raster_group,
          .predicted_nanoseconds = std::llround(1000 * plan.predicted_us)};
}

}  // namespace gemmd::jit
