// The instances that derive the operand forms of a plan. Pure functions.
#ifndef GEMMD_JIT_SOURCE_PREPARE_INSTANCES_H_
#define GEMMD_JIT_SOURCE_PREPARE_INSTANCES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "jit/plan/plan.h"
#include "jit/problem/problem.h"
#include "jit/source/instance.h"
#include "jit/source/template_library.h"

namespace gemmd::jit {

// Those of the forms that `plan` asks for of the operands of `problem`, A
// before B: none, one, or two.
absl::StatusOr<std::vector<Instance>> MakePrepareInstances(
    const TemplateLibrary& templates, const Problem& problem, const Plan& plan);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_SOURCE_PREPARE_INSTANCES_H_
