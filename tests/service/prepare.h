// Gets a problem's own kernel from the table and the cache, at once.
#ifndef GEMMD_TESTS_SERVICE_PREPARE_H_
#define GEMMD_TESTS_SERVICE_PREPARE_H_

#include <memory>
#include <utility>

#include "jit/base/status.h"
#include "service/engine/kernel_table.h"

namespace gemmd::testing {

// The own kernel, or the next best one where it is refused.
inline absl::StatusOr<std::shared_ptr<const engine::Prepared>> Prepare(
    engine::KernelTable& kernels, const jit::Problem& problem) {
  // More than there are plans that can be refused before the request is.
  for (int attempt = 0; attempt < 100; ++attempt) {
    ASSIGN_OR_RETURN(engine::KernelTable::Choice choice,
                     kernels.Choose(problem));
    if (!choice.wanted) return std::move(choice.prepared);
    const auto loaded =
        kernels.Load(*choice.wanted, engine::KernelTable::Reach::kCompiler,
                     absl::InfiniteFuture());
    if (!loaded.ok() && !kernels.Refuses(*choice.wanted)) {
      return loaded.status();
    }
  }
  return absl::InternalError("refused kernels are chosen again and again");
}

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_PREPARE_H_
