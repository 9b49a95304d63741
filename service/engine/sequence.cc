#include "service/engine/sequence.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "jit/base/status.h"
#include "service/device/stopwatch.h"
#include "service/engine/metadata.h"

namespace gemmd::engine {
namespace {

using PreparedSteps = absl::Span<const Prepared* const>;

// All that the call holds on the device, at once: between the products nothing
// is to be waited for.
absl::Status BringOperands(device::Lane& lane, const Sequence& sequence,
                           const RequestContext& context) {
  for (const Sequence::Operand& operand : sequence.operands) {
    RETURN_IF_ERROR(
        CheckMetadata(operand.name, operand.room->layout(), operand.bytes));
  }
  for (const auto& room : sequence.rooms) {
    RETURN_IF_ERROR(GiveMatrix(lane, *room));
  }
  for (const Sequence::Operand& operand : sequence.operands) {
    RETURN_IF_ERROR(UploadBatch(lane, operand.bytes, context,
                                TensorLocks::matrix(*operand.room)));
  }
  return absl::OkStatus();
}

// Enqueues the products. What is read when they are done is in `amax`.
absl::Status LaunchSteps(device::Lane& lane, PreparedSteps prepared,
                         const Sequence& sequence,
                         const RequestContext& context,
                         std::vector<Output>& amax) {
  const RequestContext rest = context.OfTheRest();
  const RequestContext* now = &context;
  for (size_t i = 0; i < sequence.steps.size(); ++i) {
    const Product& product = sequence.steps[i];
    if (prepared[i] == nullptr) continue;
    if (absl::Status why = now->Check("launch"); !why.ok()) {
      return OfStep(i, why);
    }
    auto matrices =
        PlaceProduct(lane, *prepared[i], product, {&product, 1}, *now);
    now = &rest;
    if (!matrices.ok()) return OfStep(i, matrices.status());
    const absl::Status launched =
        Launch(lane, *prepared[i], product, *matrices);
    if (!launched.ok()) return OfStep(i, launched);
    amax[i] = std::move(matrices->amax);
  }
  return absl::OkStatus();
}

// What is returned of a result: nothing of one that stays, or goes to a region.
absl::StatusOr<std::unique_ptr<device::HostBuffer>> Deliver(
    device::Lane& lane, const Destination& result) {
  const bool is_shared = result.place.region != nullptr;
  if (result.tensor == nullptr || !(is_shared || result.is_returned)) {
    return nullptr;
  }
  const device::Matrix& matrix = TensorLocks::matrix(*result.tensor);
  const device::LineRange lines = {0, matrix.layout().lines()};
  if (!is_shared) return lane.Download(matrix, lines, result.pitch_bytes);
  RETURN_IF_ERROR(
      lane.DownloadTo(result.place, matrix, lines, result.pitch_bytes));
  return nullptr;
}

absl::StatusOr<Results> DownloadStep(device::Lane& lane, const Product& product,
                                     const Output& amax) {
  Results results;
  ASSIGN_OR_RETURN(results.d, Deliver(lane, product.d));
  ASSIGN_OR_RETURN(results.auxiliary, Deliver(lane, product.auxiliary));
  if (amax.matrix != nullptr) {
    ASSIGN_OR_RETURN(results.amax, DownloadValue(lane, *amax.matrix));
  } else if (product.problem.epilogue.measures_amax) {
    results.amax = 0;  // Of no element.
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
      if (Tensor* tensor = (step.*result).tensor.get()) written.insert(tensor);
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

NamedTensors::NamedTensors(const Sequence& sequence) {
  absl::flat_hash_set<const Tensor*> seen;
  seen.reserve(2 * sequence.steps.size());
  const auto add = [&](const std::shared_ptr<Tensor>& tensor,
                       std::vector<std::shared_ptr<Tensor>>& to) {
    if (tensor == nullptr || IsRoom(*tensor)) return;
    if (seen.insert(tensor.get()).second) to.push_back(tensor);
  };
  for (const Product& step : sequence.steps) {
    for (const auto result : kResults) add((step.*result).tensor, written);
  }
  for (const Product& step : sequence.steps) {
    for (const auto input : kInputs) add((step.*input).tensor, read);
  }
}

bool MayBeAbandoned(const Sequence& sequence) {
  return absl::c_all_of(sequence.operands,
                        [&](const Sequence::Operand& operand) {
                          return operand.bytes.region != nullptr ||
                                 sequence.bytes != nullptr;
                        }) &&
         absl::c_all_of(sequence.steps, [](const Product& step) {
           return MayBeAbandoned(step);
         });
}

// Each step's are those of a product that brings the operands itself.
std::vector<Paths> PathsOf(const Sequence& sequence) {
  // What rooms hold until a step writes there.
  absl::flat_hash_map<const Tensor*, const Input*> brought;
  for (const Sequence::Operand& operand : sequence.operands) {
    brought[operand.room.get()] = &operand.bytes;
  }
  const auto source_of = [&](const Input& input) -> const Input& {
    if (brought.empty()) return input;
    const auto found = brought.find(input.tensor.get());
    return found == brought.end() ? input : *found->second;
  };
  absl::flat_hash_set<const Input*> counted;
  std::vector<Paths> all;
  all.reserve(sequence.steps.size());
  for (const Product& step : sequence.steps) {
    Paths& paths = all.emplace_back();
    paths.a = PathOf(source_of(step.a));
    paths.b = PathOf(source_of(step.b));
    paths.c = PathOf(source_of(step.c));
    for (const auto input : kInputs) {
      const Input& source = source_of(step.*input);
      paths.copies += device::IsOnDevice(source.region.get()) &&
                      counted.insert(&source).second;
    }
    for (const auto result : ResultsOf(step.problem)) {
      const Destination& to = step.*result;
      brought.erase(to.tensor.get());
      const bool leaves = to.is_returned || to.place.region != nullptr;
      Path& path = result == &Product::d ? paths.d : paths.auxiliary;
      path = leaves ? PathOfLeaving(to) : Path::kTensor;
      paths.copies += device::IsOnDevice(to.place.region.get());
    }
  }
  return all;
}

absl::StatusOr<std::vector<Results>> RunSequence(
    device::Lane& lane, PreparedSteps prepared, const Sequence& sequence,
    const RequestContext& context, Phases& phases,
    absl::FunctionRef<void()> meanwhile) {
  device::Stopwatch stopwatch;
  std::vector<Output> amax(sequence.steps.size());
  absl::Status enqueued = BringOperands(lane, sequence, context);
  phases.upload = stopwatch.Lap();
  if (enqueued.ok()) {
    enqueued = LaunchSteps(lane, prepared, sequence, context, amax);
  }
  if (enqueued.ok()) meanwhile();
  // Also after an error: what was enqueued before it uses tensors that others
  // get next.
  const absl::Status done = lane.Synchronize();
  phases.execute = stopwatch.Lap();
  RETURN_IF_ERROR(enqueued);
  RETURN_IF_ERROR(done);

  std::vector<Results> all;
  all.reserve(sequence.steps.size());
  for (size_t i = 0; i < sequence.steps.size(); ++i) {
    auto results = DownloadStep(lane, sequence.steps[i], amax[i]);
    if (!results.ok()) return OfStep(i, results.status());
    all.push_back(*std::move(results));
  }
  phases.download = stopwatch.Lap();
  return all;
}

}  // namespace gemmd::engine
