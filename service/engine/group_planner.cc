#include "service/engine/group_planner.h"

#include <cstddef>
#include <utility>

#include "jit/plan/group_launches.h"

namespace gemmd::engine {
namespace {

// A shape has 80 bytes, a group up to 256 of them, a family some hundred plans
// of half a kilobyte.
constexpr size_t kMostGroups = 256;
constexpr size_t kMostFamilies = 32;
constexpr size_t kMostShapes = 8192;

// Forgets all when there are too many: what is in use comes back soon.
template <typename Map, typename Key, typename Value>
void Remember(Map& map, size_t most, Key key, Value value) {
  if (map.size() >= most) map.clear();
  map.insert_or_assign(std::move(key), std::move(value));
}

// What a product has in common with those that go together with it.
Shape FamilyOf(jit::Problem problem) {
  problem.m = problem.n = problem.k = problem.batch = 1;
  problem.a_broadcast = problem.b_broadcast = false;
  return Shape(problem);
}

}  // namespace

std::optional<jit::GroupPlan> GroupPlanner::Choose(
    absl::Span<const jit::Problem> problems,
    const jit::DeviceProperties& device,
    absl::FunctionRef<bool(const jit::GroupPlan&)> may_run) {
  std::vector<Shape> shapes(problems.begin(), problems.end());
  {
    std::lock_guard lock(mutex_);
    const auto found = groups_.find(shapes);
    if (found != groups_.end() &&
        (!found->second || may_run(*found->second))) {
      return found->second;
    }
  }
  bool refused = false;
  const auto may = [&](const jit::GroupPlan& group) {
    const bool may_it = may_run(group);
    refused |= !may_it;
    return may_it;
  };
  const Plans unsplit = Unsplit(problems[0], device);
  const std::optional<jit::GroupPlan> best = jit::ChooseGroupPlan(
      problems, device, may,
      {.unsplit = *unsplit, .alone = [&](const jit::Problem& problem) {
         return CyclesAlone(problem, device);
       }});
  // Refusals pass.
  if (refused) return best;
  std::lock_guard lock(mutex_);
  Remember(groups_, kMostGroups, std::move(shapes), best);
  return best;
}

GroupPlanner::Plans GroupPlanner::Unsplit(const jit::Problem& problem,
                                          const jit::DeviceProperties& device) {
  const Shape family = FamilyOf(problem);
  {
    std::lock_guard lock(mutex_);
    const auto found = unsplit_.find(family);
    if (found != unsplit_.end()) return found->second;
  }
  const auto plans = std::make_shared<const std::vector<jit::Plan>>(
      jit::UnsplitPlans(problem, device));
  std::lock_guard lock(mutex_);
  Remember(unsplit_, kMostFamilies, family, plans);
  return plans;
}

double GroupPlanner::CyclesAlone(const jit::Problem& problem,
                                 const jit::DeviceProperties& device) {
  const Shape shape(problem);
  {
    std::lock_guard lock(mutex_);
    const auto found = alone_.find(shape);
    if (found != alone_.end()) return found->second;
  }
  const double cycles = jit::ChoosePlan(problem, device).predicted_cycles;
  std::lock_guard lock(mutex_);
  Remember(alone_, kMostShapes, shape, cycles);
  return cycles;
}

}  // namespace gemmd::engine
