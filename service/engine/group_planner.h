// Plans groups as jit::ChooseGroupPlan does, which takes milliseconds where a
// group takes tens of microseconds, and remembers what it can: groups that come
// again are found, and for others what is planned of each product, and of their
// family, is. Bounded. Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_GROUP_PLANNER_H_
#define GEMMD_SERVICE_ENGINE_GROUP_PLANNER_H_

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "jit/plan/group_plan.h"
#include "jit/plan/planner.h"
#include "jit/problem/problem.h"
#include "service/engine/shape.h"

namespace gemmd::engine {

class GroupPlanner {
 public:
  // Of `problems`, which go together, for that device, always the same.
  std::optional<jit::GroupPlan> Choose(
      absl::Span<const jit::Problem> problems,
      const jit::DeviceProperties& device,
      absl::FunctionRef<bool(const jit::GroupPlan&)> may_run);

 private:
  using Plans = std::shared_ptr<const std::vector<jit::Plan>>;

  Plans Unsplit(const jit::Problem& problem,
                const jit::DeviceProperties& device);
  double CyclesAlone(const jit::Problem& problem,
                     const jit::DeviceProperties& device);

  std::mutex mutex_;
  // By the shapes of the products, in their order. Null: they go apart.
  absl::flat_hash_map<std::vector<Shape>, std::optional<jit::GroupPlan>> groups_
      ABSL_GUARDED_BY(mutex_);
  // By the shape of a product of that family, without sizes.
  absl::flat_hash_map<Shape, Plans> unsplit_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Shape, double> alone_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_GROUP_PLANNER_H_
