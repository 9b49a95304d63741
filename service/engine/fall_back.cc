// Part of KernelTable: what serves where a shape's own kernel cannot be had.
#include <utility>

#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/plan/planner.h"
#include "service/engine/kernel_table.h"

namespace gemmd::engine {
namespace {

constexpr int kAllPlans = 4096;
constexpr double kHoweverSlow = 1e300;
// How long a kernel that the cache has not is not looked for again.
constexpr absl::Duration kLookAgain = absl::Minutes(1);
constexpr size_t kMaxAbsent = 16384;

}  // namespace

absl::StatusOr<KernelTable::Fallen> KernelTable::FallBack(
    const jit::Problem& problem) {
  ASSIGN_OR_RETURN(const Best chosen, BestPlan(problem));
  const jit::Plan& best = chosen.plan;
  int64_t generation;
  {
    std::lock_guard lock(mutex_);
    generation = generation_;
  }
  Fallen fallen = {.source = KernelSource::kLoaded};
  std::optional<Prepared> found = FindSubstitute(problem, best, kHoweverSlow);
  if (!found && !jit::SharesK(best.config)) {
    found = FindInCache(problem, fallen.source);
  }
  if (!found) return absl::NotFoundError("nor is another one of its family");
  std::lock_guard lock(mutex_);
  Slot* const slot = FindSlot(found->plan.family, found->plan.config);
  if (slot == nullptr) return absl::UnavailableError("it has just left");
  fallen.prepared = Remember(problem, *std::move(found),
                             {.slot = slot,
                              .substitute = true,
                              .generation = generation,
                              .ask_again = jit::SteadyNow() + kLookAgain,
                              .tuned = chosen.tuned});
  return fallen;
}

std::optional<Prepared> KernelTable::FindInCache(const jit::Problem& problem,
                                                 KernelSource& source) {
  std::vector<jit::Plan> plans =
      jit::RankPlans(problem, device_.description().properties, kAllPlans);
  // All plans read the same forms.
  if (!LoadForms(plans.front(), Reach::kCache, absl::InfinitePast()).ok()) {
    return std::nullopt;
  }
  for (jit::Plan& plan : plans) {
    if (jit::SharesK(plan.config) || !refusals_.Of(plan).ok()) continue;
    const std::string name = jit::KernelName(plan.family, plan.config);
    {
      std::lock_guard lock(mutex_);
      const auto absent = absent_.find(name);
      if (absent != absent_.end() && jit::SteadyNow() < absent->second)
        continue;
    }
    absl::StatusOr<Loaded> loaded =
        Load(plan, Reach::kCache, absl::InfinitePast());
    if (loaded.ok()) {
      source = loaded->source;
      return Prepared{std::move(plan), std::move(loaded->kernel)};
    }
    std::lock_guard lock(mutex_);
    if (absent_.size() >= kMaxAbsent) absent_.clear();
    absent_[name] = jit::SteadyNow() + kLookAgain;
  }
  return std::nullopt;
}

}  // namespace gemmd::engine
