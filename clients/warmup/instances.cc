#include "clients/warmup/instances.h"

#include <map>
#include <string>
#include <utility>

#include "jit/base/status.h"
#include "jit/source/prepare_instances.h"

namespace gemmd::warmup {

absl::StatusOr<std::vector<jit::Instance>> InstancesOf(
    const jit::TemplateLibrary& templates,
    const std::vector<jit::Problem>& problems,
    const jit::DeviceProperties& device) {
  std::map<std::string, jit::Instance> by_name;
  for (const jit::Problem& problem : problems) {
    if (!problem.writes()) continue;
    const jit::Plan plan = jit::ChoosePlan(problem, device);
    ASSIGN_OR_RETURN(std::vector<jit::Instance> preparations,
                     jit::MakePrepareInstances(templates, problem, plan));
    for (jit::Instance& instance : preparations) {
      by_name.try_emplace(instance.name, std::move(instance));
    }
    const std::string name = jit::KernelName(plan.family, plan.config);
    if (by_name.contains(name)) continue;
    ASSIGN_OR_RETURN(by_name[name],
                     jit::MakeInstance(templates, plan.family, plan.config));
  }
  std::vector<jit::Instance> instances;
  for (auto& [name, instance] : by_name) {
    instances.push_back(std::move(instance));
  }
  return instances;
}

}  // namespace gemmd::warmup
