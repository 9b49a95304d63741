// The kernels that problems run with. Pure function.
#ifndef GEMMD_CLIENTS_WARMUP_INSTANCES_H_
#define GEMMD_CLIENTS_WARMUP_INSTANCES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "jit/plan/planner.h"
#include "jit/problem/group_line.h"
#include "jit/source/instance.h"
#include "jit/source/template_library.h"

namespace gemmd::warmup {

// One instance of each kernel that the problems and groups need, by name.
absl::StatusOr<std::vector<jit::Instance>> InstancesOf(
    const jit::TemplateLibrary& templates, const jit::ProblemList& list,
    const jit::DeviceProperties& device);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_INSTANCES_H_
