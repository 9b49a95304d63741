// Part of KernelTable: one kernel for products that are to run together.
#include <utility>

#include "service/engine/kernel_table.h"

namespace gemmd::engine {
namespace {

jit::Plan FirstPlan(absl::Span<const jit::Problem> problems,
                    const jit::DeviceProperties& device,
                    const jit::GroupPlan& group) {
  jit::Plan plan =
      std::move(jit::PlansOf(problems.subspan(0, 1), device, group)[0]);
  plan.predicted_cycles = group.predicted_cycles;
  return plan;
}

}  // namespace

KernelTable::Choice KernelTable::ChooseGroup(
    absl::Span<const jit::Problem> problems) {
  const jit::DeviceProperties& device = device_.description().properties;
  const std::optional<jit::GroupPlan> best = groups_.Choose(
      problems, device, [this](const jit::GroupPlan& group) {
        return refusals_.Of(group.family, group.config).ok();
      });
  Choice choice;
  if (!best) return choice;
  choice.prepared = UseLoaded(FirstPlan(problems, device, *best));
  if (choice.prepared != nullptr) return choice;

  choice.wanted = FirstPlan(problems, device, *best);
  if (options_.new_group) {
    options_.new_group(problems, jit::KernelName(best->family, best->config));
  }
  std::optional<jit::GroupPlan> substitute;
  double limit = best->predicted_cycles + kMaxExcessCycles;
  for (const auto& kernel : LoadedOf(best->family, /*grouped=*/true)) {
    const auto with =
        jit::GroupPlanWith(problems, device, kernel->family, kernel->config);
    if (!with || with->predicted_cycles >= limit) continue;
    limit = with->predicted_cycles;
    substitute = with;
  }
  if (substitute) {
    choice.prepared = UseLoaded(FirstPlan(problems, device, *substitute));
  }
  return choice;
}

std::shared_ptr<const Prepared> KernelTable::UseLoaded(jit::Plan plan) {
  std::lock_guard lock(mutex_);
  Slot* const slot = FindSlot(plan);
  if (slot == nullptr) return nullptr;
  Note(*slot, /*uses=*/1);
  return std::make_shared<const Prepared>(
      Prepared{std::move(plan), slot->kernel, &forms_});
}

}  // namespace gemmd::engine
