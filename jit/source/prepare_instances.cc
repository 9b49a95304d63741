#include "jit/source/prepare_instances.h"

#include <utility>

#include "jit/base/status.h"

namespace gemmd::jit {

absl::StatusOr<std::vector<Instance>> MakePrepareInstances(
    const TemplateLibrary& templates, const Problem& problem,
    const Plan& plan) {
  std::vector<Instance> instances;
  const std::pair<Form, DataType> operands[] = {{plan.a_form, problem.a_type},
                                                {plan.b_form, problem.b_type}};
  for (const auto& [form, type] : operands) {
    if (form == Form::kStored) continue;
    ASSIGN_OR_RETURN(Instance instance,
                     MakePrepareInstance(templates, form, type));
    instances.push_back(std::move(instance));
  }
  return instances;
}

}  // namespace gemmd::jit
