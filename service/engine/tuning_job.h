// Tunes one problem on one device: its best plans by prediction are compiled
// behind what requests wait for, timed on lanes, and the fastest is recorded
// and used from the next request on.
//
// The same request keeps its bits. They depend on the parts of k that a plan
// sums in and on nothing else of it (jit/plan/tuning_record.h), so only plans
// with the parts that the problem has now take part, unless a new generation
// is asked for. That a winner's bits are the same is checked, too.
#ifndef GEMMD_SERVICE_ENGINE_TUNING_JOB_H_
#define GEMMD_SERVICE_ENGINE_TUNING_JOB_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "jit/cache/tuning_table.h"
#include "jit/plan/tuning_record.h"
#include "jit/problem/problem.h"
#include "service/engine/preparer.h"
#include "service/engine/request_context.h"
#include "service/engine/served_device.h"
#include "service/engine/tensor_store.h"

namespace gemmd::engine {

struct TuningOrder {
  static constexpr int kDefaultCandidates = 16;

  jit::Problem problem;                 // Valid; reads_ab() and writes().
  int candidates = kDefaultCandidates;  // Plans to time, the present one too.
  bool new_generation = false;  // Allows other parts of k, and so other bits.
};

struct TuningOutcome {
  std::string device;        // ServedDevice::title.
  jit::TuningRecord record;  // As it was stored.
  std::string kernel_before;
  int splits_before = 1;
  int generation_before = 0;
  double us_before = 0;  // Of one product, as measured beside the winner.
  double us = 0;
  int measured = 0;  // Plans that were timed;
  int failed = 0;    // whose kernels could not be had.
};

// What a job works with. All outlive it.
struct TuningPlace {
  // Runs device work of a millisecond or two when its time has come, and waits
  // for it. `work` owns what it uses.
  using OnLane =
      std::function<absl::Status(absl::AnyInvocable<absl::Status()> work)>;

  ServedDevice& served;
  int index;  // Of the device in `tensors`.
  // All of its product, itself too: a record is for all of them.
  std::vector<ServedDevice*> alike;
  TensorStore& tensors;
  Preparer& preparer;
  jit::TuningTable& table;
  std::mutex& timing;  // Held while the device times: one job at a time.
  const std::atomic<bool>& stopping;  // Jobs end with UNAVAILABLE.
  OnLane on_lane;
};

class TuningJob {
 public:
  TuningJob(const TuningPlace& place, const TuningOrder& order,
            RequestContext context)
      : place_(place), order_(order), context_(std::move(context)) {}

  // UNIMPLEMENTED on a device that times no kernels; UNAVAILABLE when requests
  // disturb every measurement; RESOURCE_EXHAUSTED when the quota of tensors has
  // no room for the operands. Then nothing has changed.
  absl::StatusOr<TuningOutcome> Run();

 private:
  using Kernel = std::shared_ptr<const LoadedKernel>;
  struct Field;  // The contenders and what times them.

  absl::Status Check() const;
  const std::string& product() const {
    return place_.served.device->description().product;
  }
  std::vector<jit::Plan> PlansToTime(const jit::Plan& incumbent) const;
  // Kernels of `plans` in their order, null where they cannot be had; the
  // error of the first one is that of all.
  absl::StatusOr<std::vector<Kernel>> Load(const std::vector<jit::Plan>& plans);
  // The plans that can run, the present one first.
  absl::StatusOr<std::shared_ptr<Field>> Gather(TuningOutcome& outcome);
  absl::Status Prepare(const std::shared_ptr<Field>& field);
  absl::StatusOr<double> Sample(const std::shared_ptr<Field>& field, size_t i);
  // INTERNAL when the winner, which sums in the same parts of k as the present
  // plan, does not give its bits.
  absl::Status CheckBits(const std::shared_ptr<Field>& field, size_t winner);
  absl::Status Apply(const jit::Plan& winner, TuningOutcome& outcome);
  // All devices of the product run the problem as its record says from here
  // on: none goes on with other parts of k than the rest.
  void UseRecord();

  const TuningPlace& place_;
  const TuningOrder order_;
  const RequestContext context_;
  int disturbed_ = 0;  // Samples that were thrown away.
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_TUNING_JOB_H_
