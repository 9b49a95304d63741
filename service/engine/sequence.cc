#include "service/engine/sequence.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "jit/base/status.h"
#include "service/device/stopwatch.h"
#include "service/engine/metadata.h"

namespace gemmd::engine {
namespace {

using PreparedSteps = absl::Span<const std::shared_ptr<const Prepared>>;

// All that the call holds on the device, at once: between the products nothing
// is to be waited for.
absl::Status BringOperands(device::Lane& lane, const Sequence& sequence) {
  for (const Sequence::Operand& operand : sequence.operands) {
    RETURN_IF_ERROR(
        CheckMetadata(operand.name, operand.room->layout(), operand.bytes));
  }
  for (const auto& room : sequence.rooms) {
    RETURN_IF_ERROR(GiveMatrix(lane, *room));
  }
  for (const Sequence::Operand& operand : sequence.operands) {
    RETURN_IF_ERROR(
        UploadBatch(lane, operand.bytes, TensorLocks::matrix(*operand.room)));
  }
  return absl::OkStatus();
}

// Enqueues the products. What is read when they are done is in `placed`.
absl::Status LaunchSteps(device::Lane& lane, PreparedSteps prepared,
                         const Sequence& sequence,
                         const RequestContext& context,
                         std::vector<Placed>& placed) {
  const RequestContext rest = context.OfTheRest();
  const RequestContext* now = &context;
  for (size_t i = 0; i < sequence.steps.size(); ++i) {
    const Product& product = sequence.steps[i];
    if (prepared[i] == nullptr) continue;
    if (absl::Status why = now->Check("launch"); !why.ok()) {
      return OfStep(i, why);
    }
    auto matrices =
        PlaceProduct(lane, *prepared[i], product, {&product, 1}, now->deadline);
    now = &rest;
    if (!matrices.ok()) return OfStep(i, matrices.status());
    const absl::Status launched =
        Launch(lane, *prepared[i], product.problem, *matrices);
    if (!launched.ok()) return OfStep(i, launched);
    placed[i].amax = std::move(matrices->amax);
  }
  return absl::OkStatus();
}

absl::StatusOr<Results> DownloadStep(device::Lane& lane, const Product& product,
                                     const Placed& placed) {
  const auto download = [&](const Destination& from) {
    return lane.Download(TensorLocks::matrix(*from.tensor),
                         {0, product.problem.d().lines()}, from.pitch_bytes);
  };
  Results results;
  if (product.d.is_returned) {
    ASSIGN_OR_RETURN(results.d, download(product.d));
  }
  if (product.auxiliary.is_returned) {
    ASSIGN_OR_RETURN(results.auxiliary, download(product.auxiliary));
  }
  if (placed.amax.matrix != nullptr) {
    ASSIGN_OR_RETURN(results.amax, DownloadValue(lane, *placed.amax.matrix));
  }
  return results;
}

}  // namespace

absl::Status OfStep(size_t i, const absl::Status& error) {
  return jit::OfElement("steps", i, error);
}

void MarkChanges(Sequence& sequence) {
  absl::flat_hash_set<const Tensor*> written;
  for (const Product& step : sequence.steps) {
    for (const auto result : kResults) {
      written.insert((step.*result).tensor.get());
    }
  }
  for (Product& step : sequence.steps) {
    for (Input* input : {&step.a, &step.b}) {
      if (input->tensor == nullptr) continue;
      input->changes =
          IsRoom(*input->tensor) || written.contains(input->tensor.get());
    }
  }
}

absl::StatusOr<std::vector<Results>> RunSequence(device::Lane& lane,
                                                 PreparedSteps prepared,
                                                 const Sequence& sequence,
                                                 const RequestContext& context,
                                                 Phases& phases) {
  device::Stopwatch stopwatch;
  std::vector<Placed> placed(sequence.steps.size());
  absl::Status enqueued = BringOperands(lane, sequence);
  phases.upload = stopwatch.Lap();
  if (enqueued.ok()) {
    enqueued = LaunchSteps(lane, prepared, sequence, context, placed);
  }
  // Also after an error: what was enqueued before it uses tensors that others
  // get next.
  const absl::Status done = lane.Synchronize();
  phases.execute = stopwatch.Lap();
  RETURN_IF_ERROR(enqueued);
  RETURN_IF_ERROR(done);

  std::vector<Results> all;
  for (size_t i = 0; i < sequence.steps.size(); ++i) {
    auto results = DownloadStep(lane, sequence.steps[i], placed[i]);
    if (!results.ok()) return OfStep(i, results.status());
    all.push_back(*std::move(results));
  }
  phases.download = stopwatch.Lap();
  return all;
}

}  // namespace gemmd::engine
