// A sequence on its way: it gets its kernels, its tensors and its turn, and
// runs.
#ifndef GEMMD_SERVICE_ENGINE_SEQUENCE_TASK_H_
#define GEMMD_SERVICE_ENGINE_SEQUENCE_TASK_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "service/engine/cost.h"
#include "service/engine/lane_task.h"
#include "service/engine/once.h"
#include "service/engine/preparer.h"
#include "service/engine/product_task.h"
#include "service/engine/sequence.h"
#include "service/engine/served_device.h"
#include "service/engine/step_kernels.h"
#include "service/engine/tensor_locks.h"

namespace gemmd::engine {

struct SequenceResult {
  struct Step : Results {
    size_t execution = 0;  // Of `executions`.
  };

  const Execution& execution(size_t step) const {
    return executions[steps[step].execution];
  }

  std::vector<Step> steps;
  // How they ran: each way once, and without phases,
  std::vector<Execution> executions;
  Phases phases;  // which are those of the whole.
};

class SequenceTask final : public LaneTask {
 public:
  // `served` and `preparer` outlive the task.
  SequenceTask(ServedDevice& served, Preparer& preparer, Sequence sequence,
               RequestContext context, Done<SequenceResult> done);

  // Gets the kernels, waiting for one after the other while the next ones are
  // under way, then takes a place in the device's queue, waits for the tensors,
  // and runs in its turn; or is given up. Once.
  const std::vector<Product>& steps() const { return sequence_.steps; }
  void Start();

  bool Run(device::Lane& lane) override;
  void Abandon(const absl::Status& why) override;

 private:
  void Refuse(const absl::Status& why) override;
  // Of kernels_, those that are not there.
  std::vector<size_t> ColdKernels() const;
  // Has those behind `kernel` under way.
  void PrepareBehind(size_t kernel);
  void PrepareFrom(size_t first, Places::Entry entry);
  void Queue(Places::Entry entry);
  int64_t Cost(const Work& work) const;
  // Counts what the steps did, which took so long in all.
  void CountSteps(absl::Duration execute);
  // How the steps run, which is known before what they return.
  SequenceResult Outline() const;
  Execution ExecutionOf(size_t step, const Paths& paths) const;

  ServedDevice& served_;
  Preparer& preparer_;
  const absl::Time admitted_;
  const bool may_abandon_;  // As of a product.
  Sequence sequence_;
  Once<SequenceResult> done_;
  StepKernels kernels_;
  std::vector<size_t> cold_;
  size_t begun_ = 0;  // Of cold_, those for which a kernel is under way.
  // Whence came those of kernels_ that were prepared ahead.
  std::vector<std::atomic<KernelSource>> ahead_;
  // The first step whose kernel is waited for; -1: none is.
  std::atomic<int> preparing_ = -1;
  TensorLocks locks_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_SEQUENCE_TASK_H_
