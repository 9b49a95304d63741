// A compile that goes on while the operands of a product come. Lives on the
// call's loop.
#ifndef GEMMD_SERVICE_RPC_EARLY_PREPARATION_H_
#define GEMMD_SERVICE_RPC_EARLY_PREPARATION_H_

#include <atomic>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/rpc/call.h"

namespace gemmd::rpc {

class EarlyPreparation {
 public:
  // Begins to prepare `problem`, unless its kernel is loaded. Errors count for
  // nothing: the product will meet them.
  EarlyPreparation(engine::Engine& engine, const Call& call,
                   const jit::Problem& problem, int device) {
    // The product will find it, too, and count as its use.
    if (!problem.writes() ||
        engine.kernels(device).Find(problem, /*uses=*/0) != nullptr) {
      return;
    }
    engine.Prepare(problem, device, call.request_context(),
                   [answer = answer_](absl::StatusOr<engine::Execution> ready) {
                     answer->execution = std::move(ready);
                     answer->there.store(true, std::memory_order_release);
                   });
  }

  // A kernel that the product found loaded may have been loaded for it.
  void Credit(engine::Execution& execution) const {
    if (execution.source != engine::KernelSource::kLoaded) return;
    if (!answer_->there.load(std::memory_order_acquire)) return;
    const absl::StatusOr<engine::Execution>& ready = *answer_->execution;
    if (!ready.ok() || ready->cubin_key != execution.cubin_key) return;
    execution.source = ready->source;
    execution.phases.plan += ready->phases.plan;
    execution.phases.compile += ready->phases.compile;
  }

 private:
  // Shared with the engine, which may answer when the call is over.
  struct Answer {
    std::optional<absl::StatusOr<engine::Execution>> execution;
    std::atomic<bool> there = false;
  };

  const std::shared_ptr<Answer> answer_ = std::make_shared<Answer>();
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_EARLY_PREPARATION_H_
