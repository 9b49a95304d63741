#include "service/engine/preparation.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"

namespace gemmd::engine {

absl::StatusOr<Preparation> Prepare(KernelTable& kernels,
                                    const jit::Problem& problem,
                                    absl::Time deadline) {
  Preparation result;
  result.source = KernelSource::kLoaded;
  while (true) {
    const absl::Time start = absl::Now();
    ASSIGN_OR_RETURN(KernelTable::Choice choice, kernels.Choose(problem));
    const absl::Time planned = absl::Now();
    result.plan_time += planned - start;
    if (!choice.wanted) {
      result.prepared = std::move(choice.prepared);
      return result;
    }
    auto loaded =
        kernels.Load(*choice.wanted, KernelTable::Reach::kCompiler, deadline);
    result.compile_time += absl::Now() - planned;
    if (loaded.ok()) {
      result.source = loaded->source;
    } else if (absl::IsFailedPrecondition(loaded.status()) &&
               !kernels.Refuses(*choice.wanted)) {
      return absl::FailedPreconditionError(
          absl::StrCat(loaded.status().message(), " (needed for ",
                       jit::DebugString(problem), ")"));
    } else if (!kernels.Refuses(*choice.wanted)) {
      return loaded.status();
    }
  }
}

}  // namespace gemmd::engine
