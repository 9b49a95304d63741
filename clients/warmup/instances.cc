#include "clients/warmup/instances.h"

#include <map>
#include <string>
#include <utility>

#include "clients/warmup/group_plans.h"
#include "jit/base/status.h"
#include "jit/plan/tuned_plan.h"
#include "jit/source/prepare_instances.h"

namespace gemmd::warmup {
namespace {

using ByName = std::map<std::string, jit::Instance>;

absl::Status Add(const jit::TemplateLibrary& templates,
                 const jit::Problem& problem, const jit::Plan& plan,
                 ByName& by_name) {
  ASSIGN_OR_RETURN(std::vector<jit::Instance> preparations,
                   jit::MakePrepareInstances(templates, problem, plan));
  for (jit::Instance& instance : preparations) {
    by_name.try_emplace(instance.name, std::move(instance));
  }
  const std::string name = jit::KernelName(plan.family, plan.config);
  if (by_name.contains(name)) return absl::OkStatus();
  ASSIGN_OR_RETURN(by_name[name],
                   jit::MakeInstance(templates, plan.family, plan.config));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<jit::Instance>> InstancesOf(
    const jit::TemplateLibrary& templates, const jit::ProblemList& list,
    const jit::DeviceProperties& device) {
  ByName by_name;
  for (const jit::Problem& problem : list.problems) {
    if (!problem.writes()) continue;
    RETURN_IF_ERROR(
        Add(templates, problem, jit::UntunedPlan(problem, device), by_name));
  }
  for (const jit::ProblemGroup& group : list.groups) {
    for (const PlannedProblem& planned : PlanGroup(group, device)) {
      RETURN_IF_ERROR(Add(templates, planned.problem, planned.plan, by_name));
    }
  }
  std::vector<jit::Instance> instances;
  for (auto& [name, instance] : by_name) {
    instances.push_back(std::move(instance));
  }
  return instances;
}

}  // namespace gemmd::warmup
