// A sequence on its way: it gets its kernels, its tensors and its turn, and
// runs.
#ifndef GEMMD_SERVICE_ENGINE_SEQUENCE_TASK_H_
#define GEMMD_SERVICE_ENGINE_SEQUENCE_TASK_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "service/engine/lane_task.h"
#include "service/engine/once.h"
#include "service/engine/preparer.h"
#include "service/engine/product_task.h"
#include "service/engine/sequence.h"
#include "service/engine/served_device.h"
#include "service/engine/tensor_locks.h"

namespace gemmd::engine {

// What a sequence may be predicted to take: about a second of a GPU. Others
// wait for its lane so long, and for its tensors.
inline constexpr int64_t kMaxSequenceCycles = 1'700'000'000;

struct SequenceResult {
  std::vector<ProductResult> steps;  // Without phases,
  Phases phases;                     // which are those of the whole.
};

class SequenceTask final : public LaneTask {
 public:
  // `served` and `preparer` outlive the task.
  SequenceTask(ServedDevice& served, Preparer& preparer, Sequence sequence,
               RequestContext context, Done<SequenceResult> done);

  // Gets the kernels, waiting for one after the other while all are under way,
  // then takes a place in the device's queue, waits for the tensors, and runs
  // in its turn; or is given up. Once.
  void Start();

  bool Run(device::Lane& lane) override;
  void Abandon(const absl::Status& why) override;

 private:
  void Refuse(const absl::Status& why) override;
  // Those that are not there, each once, by the first step that needs it.
  std::vector<std::pair<size_t, jit::Problem>> ColdProblems() const;
  void PrepareFrom(size_t first, Places::Entry entry);
  void Queue(Places::Entry entry);
  double ProductCycles() const;
  int64_t Cost() const;
  SequenceResult ToResult(std::vector<Results> results, const Phases& phases);

  ServedDevice& served_;
  Preparer& preparer_;
  const absl::Time admitted_;
  const bool may_abandon_;  // As of a product.
  Sequence sequence_;
  Once<SequenceResult> done_;
  std::vector<Preparation> preparations_;  // Of the steps.
  // Whence came what was prepared ahead for a step.
  std::vector<std::atomic<KernelSource>> ahead_;
  // The step whose kernel is waited for; -1: none is.
  std::atomic<int> preparing_ = -1;
  TensorLocks locks_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_SEQUENCE_TASK_H_
