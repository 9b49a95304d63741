// What the cost model leaves unexplained, learnt from measurements: how the
// terms of a plan interact (waves, requests for the same lines, bytes in
// flight) is no simple sum. A committee of small networks sees the terms and
// predicts by how much the model errs. Its weights are in cost_weights.h,
// written by tests/bench/fit/fit.py, which reports what they are worth on
// problems that they were not fitted to. Pure functions, thread-safe.
#ifndef GEMMD_JIT_PLAN_COST_CORRECTION_H_
#define GEMMD_JIT_PLAN_COST_CORRECTION_H_

#include <array>

#include "jit/plan/plan.h"
#include "jit/plan/planner.h"

namespace gemmd::jit {

inline constexpr int kCostTerms = 35;

// The terms, most of them binary logarithms, of a plan with config, splits and
// predicted_cycles. Their order is that of the weights.
using CostTerms = std::array<float, kCostTerms>;
CostTerms CostTermsOf(const Plan& plan, const DeviceProperties& device);

// Microseconds that the plan's launches take on an idle device, operands in
// device memory.
double PredictMicroseconds(const Plan& plan, const DeviceProperties& device);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_COST_CORRECTION_H_
