// Gets the kernel that a problem runs with, by way of cache and compiler.
#ifndef GEMMD_SERVICE_ENGINE_PREPARATION_H_
#define GEMMD_SERVICE_ENGINE_PREPARATION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/engine/kernel_table.h"

namespace gemmd::engine {

struct Preparation {
  std::shared_ptr<const Prepared> prepared;
  KernelSource source = KernelSource::kNone;
  absl::Duration plan_time;
  absl::Duration compile_time;  // Cache, compiler and module load.
};

// Plans and loads the problem's own kernel, or the next best one where
// compiler or device refuse it; may take seconds. Errors are those of
// KernelTable::Load.
absl::StatusOr<Preparation> Prepare(KernelTable& kernels,
                                    const jit::Problem& problem,
                                    absl::Time deadline);

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_PREPARATION_H_
