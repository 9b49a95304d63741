// Plans beside the planner's first choice: the one that a tuning record names,
// and those that may take the place of another. Pure functions, thread-safe.
#ifndef GEMMD_JIT_PLAN_TUNED_PLAN_H_
#define GEMMD_JIT_PLAN_TUNED_PLAN_H_

#include <optional>
#include <vector>

#include "jit/plan/plan.h"
#include "jit/plan/planner.h"
#include "jit/plan/tuning_record.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

// The plan of a problem that no record is of: the planner's first choice, but no
// balanced config. Where those fit they take down to half of the time, but the
// cost model cannot tell where: of 25 that it chose for problems at random, 15
// were slower than the vendor's library, down to 0.53 of its speed (H200). A
// tuner measures them.
Plan UntunedPlan(const Problem& problem, const DeviceProperties& device);

// The plan that `record`, of the class of `problem`, found best. Null when the
// planner makes no such plan (any more).
std::optional<Plan> TunedPlan(const TuningRecord& record,
                              const Problem& problem,
                              const DeviceProperties& device);

// The `count` best plans in order of predicted time, of those that sum k in
// `splits` parts and so give the same bits. All others are left out.
std::vector<Plan> RankPlansOfSplits(const Problem& problem,
                                    const DeviceProperties& device, int splits,
                                    int count);

// The `count` plans to try, in this order, where the best one is refused:
// first those that sum k in `splits` parts.
std::vector<Plan> PlansInstead(const Problem& problem,
                               const DeviceProperties& device, int splits,
                               int count);

// Whether both run a problem in the same way.
bool SameLaunch(const Plan& a, const Plan& b);

// What a record says of `plan`; the rest of it is the caller's to fill in.
TuningRecord RecordOf(const Plan& plan, const Problem& problem);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_TUNED_PLAN_H_
