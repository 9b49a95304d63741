// Predicted execution time of a plan, in SM clock cycles. Pure function.
#ifndef GEMMD_JIT_PLAN_COST_MODEL_H_
#define GEMMD_JIT_PLAN_COST_MODEL_H_

#include "jit/plan/plan.h"
#include "jit/plan/planner.h"

namespace gemmd::jit {

// Ranks the configs of one problem; what all of them share (launch, memory
// floor) is left out. `plan` has its family, config and dimensions.
double PredictCycles(const Plan& plan, const DeviceProperties& device);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_COST_MODEL_H_
