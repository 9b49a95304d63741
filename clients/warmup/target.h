// The GPU that kernels are prepared for, where there is none to ask. Pure
// functions.
#ifndef GEMMD_CLIENTS_WARMUP_TARGET_H_
#define GEMMD_CLIENTS_WARMUP_TARGET_H_

#include <vector>

#include "absl/status/statusor.h"
#include "clients/warmup/flags.h"
#include "jit/plan/planner.h"

namespace gemmd::warmup {

// --device NAME and --multiprocessors N.
std::vector<FlagSpec> TargetFlags();

// INVALID_ARGUMENT lists the names, or the range.
absl::StatusOr<jit::DeviceProperties> Target(const Flags& flags);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_TARGET_H_
