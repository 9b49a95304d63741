// What a plan's launch needs once its family and config are chosen: grid,
// tensor maps, workspace. Pure functions.
#ifndef GEMMD_JIT_PLAN_LAUNCH_ARITHMETIC_H_
#define GEMMD_JIT_PLAN_LAUNCH_ARITHMETIC_H_

#include "jit/plan/plan.h"
#include "jit/plan/planner.h"
#include "jit/problem/problem.h"
#include "templates/common/geometry.h"

namespace gemmd::jit {

constexpr int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t RoundUp(int64_t a, int64_t b) { return DivideUp(a, b) * b; }

// Rows of tiles of a P, those of CTAs that load for each other as one.
inline int64_t TileRows(const Plan& plan) {
  return DivideUp(plan.rows, plan.config.tile_m * plan.config.multicast);
}

// Tiles of all P, counted like that.
inline int64_t Tiles(const Plan& plan) {
  return plan.batch * TileRows(plan) *
         DivideUp(plan.columns, plan.config.tile_n);
}

// Of work, that CTAs or clusters take in turn: tiles, and parts of k where CTAs
// share it.
inline int64_t Units(const Plan& plan) {
  return Tiles(plan) * (plan.config.split_k ? plan.splits : 1);
}

// Those that take them, on a whole device.
inline int64_t Workers(const Plan& plan, const DeviceProperties& device) {
  return device.multiprocessors / ClusterCtas(plan.config);
}

// Stages of a unit, of all passes, where CTAs do not share k.
int64_t StagesOfUnit(const Plan& plan);

// Units that a balanced config shares out to the stage: those of the last
// round, which leaves some of the device idle, and of the one before it. 0
// where there are no such two, or units are too short.
int BalancedUnits(const Plan& plan, const DeviceProperties& device);

// A part of a unit has so many stages, or is left to the other CTA.
inline constexpr int kLeastBalancedStages = 4;

// Of the flags of sums that are passed on.
inline int64_t PassFlagsBytes(const Plan& plan) {
  return plan.balanced_units == 0 ? 0 : int64_t{4} * kPassFlags * plan.grid;
}

// Stages, a power of two, whose sums of quantized weights are scaled together:
// those of a group where a consumer has all of them, one after the other.
inline int PromotedStages(const Plan& plan) {
  return plan.splits == 1 ? 1 << plan.group_stage_shift : 1;
}

// Bytes of a line of Y along k, and of X unless it is sparse.
int64_t DepthBytes(const Plan& plan);

// Fills in everything of `plan` but its orientation, family, config, splits
// and predicted time, which are given.
void CompletePlan(const Problem& problem, const DeviceProperties& device,
                  Plan& plan);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_LAUNCH_ARITHMETIC_H_
