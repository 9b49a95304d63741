// Predicted execution time of a plan, in SM clock cycles. Pure function.
#ifndef GEMMD_JIT_PLAN_COST_MODEL_H_
#define GEMMD_JIT_PLAN_COST_MODEL_H_

#include "absl/types/span.h"
#include "jit/plan/plan.h"
#include "jit/plan/planner.h"

namespace gemmd::jit {

// Ranks the configs of one problem; what all of them share (launch, memory
// floor) is left out. `plan` has its family, config and dimensions.
double PredictCycles(const Plan& plan, const DeviceProperties& device);

// Rounds in which CTAs take the plan's units; broken where the last units are
// shared out.
double Waves(const Plan& plan, const DeviceProperties& device);

// Of products that one launch makes with the family and the config of `plan`,
// which are unsplit, and operands in its forms. As many of each as it says.
struct GroupedProduct {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t count = 0;  // Of a batch too.
};
double PredictGroupCycles(const Plan& plan,
                          absl::Span<const GroupedProduct> products,
                          const DeviceProperties& device);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_COST_MODEL_H_
