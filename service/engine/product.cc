#include "service/engine/product.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "jit/base/status.h"
#include "service/device/stopwatch.h"
#include "service/engine/positions.h"

namespace gemmd::engine {

namespace {

// Of small matrices that do not lie as one run of lines, what is gathered to
// travel as one: enough to be worth a copy, little enough for a core's cache.
constexpr int64_t kGatheredBytes = 64 << 10;

// From line to line of a batch whose matrices lie as one run of lines; nothing
// where they do not.
std::optional<int64_t> PitchOf(const Input& input,
                               const jit::MatrixLayout& layout) {
  if (layout.count == 1) return input.pitch_bytes;
  if (layout.matrix_lines() == 1) {
    if (input.matrix_bytes < layout.width_bytes()) return std::nullopt;
    return input.matrix_bytes;
  }
  if (input.matrix_bytes != layout.matrix_lines() * input.pitch_bytes) {
    return std::nullopt;
  }
  return input.pitch_bytes;
}

// Matrices that lie anyhow, one by one.
absl::Status UploadEach(device::Lane& lane, const Input& input,
                        const RequestContext& context, device::Matrix& matrix) {
  const jit::MatrixLayout& layout = matrix.layout();
  const int64_t lines = layout.matrix_lines();
  const int64_t bytes = (lines - 1) * input.pitch_bytes + layout.width_bytes();
  Positions positions(input.pieces);
  for (int64_t i = 0; i < layout.count; ++i) {
    RETURN_IF_ERROR(context.Check("launch"));
    const auto pieces = positions.Cut(i * input.matrix_bytes, bytes);
    RETURN_IF_ERROR(lane.Upload({pieces, input.pitch_bytes, input.region},
                                {i * lines, lines}, matrix));
  }
  return absl::OkStatus();
}

// The same of bytes of the host, `together` at a time: as one run of lines.
absl::Status UploadGathered(device::Lane& lane, const Input& input,
                            int64_t together, const RequestContext& context,
                            device::Matrix& matrix) {
  const jit::MatrixLayout& layout = matrix.layout();
  const int64_t lines = layout.matrix_lines();
  const int64_t width = layout.width_bytes();
  Positions positions(input.pieces);
  std::vector<char> gathered;
  for (int64_t first = 0; first < layout.lines(); first += together * lines) {
    RETURN_IF_ERROR(context.Check("launch"));
    const int64_t count = std::min(together * lines, layout.lines() - first);
    gathered.resize(count * width);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t matrix_start = (first + i) / lines * input.matrix_bytes;
      const int64_t line_start = (first + i) % lines * input.pitch_bytes;
      positions.Read(matrix_start + line_start, width, &gathered[i * width]);
    }
    const auto piece = absl::MakeConstSpan(gathered);
    RETURN_IF_ERROR(lane.Upload({{&piece, 1}, width}, {first, count}, matrix));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status UploadBatch(device::Lane& lane, const Input& input,
                         const RequestContext& context,
                         device::Matrix& matrix) {
  const jit::MatrixLayout& layout = matrix.layout();
  if (const std::optional<int64_t> pitch = PitchOf(input, layout)) {
    return lane.Upload({input.pieces, *pitch, input.region},
                       {0, layout.lines()}, matrix);
  }
  const int64_t together =
      kGatheredBytes / (layout.matrix_lines() * layout.width_bytes());
  if (together <= 1 || device::IsOnDevice(input.region.get())) {
    return UploadEach(lane, input, context, matrix);
  }
  return UploadGathered(lane, input, together, context, matrix);
}

absl::Status GiveMatrix(device::Lane& lane, Tensor& tensor) {
  if (TensorLocks::has_elements(tensor)) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto matrix, lane.Allocate(tensor.layout()));
  TensorLocks::Replace(
      tensor, {tensor.TakeRoom().value_or(QuotaHold()), std::move(matrix)});
  return absl::OkStatus();
}

namespace {

// An input that is used where it is; null when it has to be copied.
std::unique_ptr<device::Matrix> Borrow(device::Lane& lane, const Input& input,
                                       const jit::MatrixLayout& layout) {
  const std::optional<int64_t> pitch = PitchOf(input, layout);
  if (!pitch) return nullptr;
  const int64_t offset = input.pieces[0].data() - input.region->bytes().data();
  return lane.Borrow({input.region, offset}, layout, *pitch);
}

// A tensor where it is, or its copy on the device of the lane. Without `forms`
// it is there.
absl::StatusOr<Resident> BringTensor(device::Lane& lane, Forms* forms,
                                     Tensor& tensor, int& copies) {
  Resident resident;
  const device::Matrix& stored = TensorLocks::matrix(tensor);
  resident.matrix = &stored;
  if (forms == nullptr || forms->number() == tensor.identity().device) {
    return resident;
  }
  ASSIGN_OR_RETURN(resident.kept,
                   forms->CopyOf(lane, tensor.forms(forms->number()), stored,
                                 TensorLocks::version(tensor), copies));
  resident.matrix = resident.kept->matrix.get();
  return resident;
}

// Nothing for an empty matrix. Counts copies.
absl::StatusOr<Resident> Bring(device::Lane& lane, Forms* forms,
                               const Input& input,
                               const jit::MatrixLayout& layout,
                               const RequestContext& context, int& copies) {
  Resident resident;
  if (layout.empty()) return resident;
  if (input.tensor != nullptr) {
    return BringTensor(lane, forms, *input.tensor, copies);
  }
  if (device::IsOnDevice(input.region.get())) {
    resident.owned = Borrow(lane, input, layout);
    if (resident.owned == nullptr) ++copies;
  }
  if (resident.owned == nullptr) {
    ASSIGN_OR_RETURN(resident.owned, lane.Allocate(layout));
    RETURN_IF_ERROR(UploadBatch(lane, input, context, *resident.owned));
  }
  resident.matrix = resident.owned.get();
  return resident;
}

// `form`, which is derived, of an operand that was brought: that of a tensor is
// kept with it, unless it changes; that of bytes lives as long as the product.
absl::StatusOr<Resident> DeriveForm(device::Lane& lane, Forms& forms,
                                    const Input& input, const Resident& stored,
                                    jit::Form form) {
  Resident resident;
  if (input.tensor != nullptr && !input.changes) {
    Tensor& tensor = *input.tensor;
    ASSIGN_OR_RETURN(
        resident.kept,
        forms.Of(lane, tensor.forms(forms.number()), *stored.matrix,
                 TensorLocks::version(tensor), form));
    resident.matrix = resident.kept->matrix.get();
    return resident;
  }
  ASSIGN_OR_RETURN(resident.owned, forms.Derive(lane, *stored.matrix, form));
  resident.matrix = resident.owned.get();
  return resident;
}

}  // namespace

absl::StatusOr<Operand> BringOperand(device::Lane& lane, Forms* forms,
                                     const Input& input,
                                     const jit::MatrixLayout& layout,
                                     jit::Form form,
                                     const RequestContext& context,
                                     int& copies) {
  Operand operand;
  ASSIGN_OR_RETURN(Resident stored,
                   Bring(lane, forms, input, layout, context, copies));
  const bool derives =
      forms != nullptr && forms->Derives(form) && !layout.empty();
  if (!derives) {
    operand.values = std::move(stored);
    return operand;
  }
  ASSIGN_OR_RETURN(Resident derived,
                   DeriveForm(lane, *forms, input, stored, form));
  if (form != jit::Form::kMetadata) {
    operand.values = std::move(derived);
    return operand;
  }
  operand.values = std::move(stored);
  operand.metadata = std::move(derived);
  return operand;
}

namespace {

absl::StatusOr<Output> Place(device::Lane& lane,
                             const std::shared_ptr<Tensor>& tensor,
                             const jit::MatrixLayout& layout) {
  Output output;
  if (tensor != nullptr) {
    RETURN_IF_ERROR(GiveMatrix(lane, *tensor));
    output.matrix = &TensorLocks::matrix(*tensor);
    return output;
  }
  ASSIGN_OR_RETURN(output.owned, lane.Allocate(layout));
  output.matrix = output.owned.get();
  return output;
}

// Where `result` is to go, if it may be written there as it is computed.
absl::StatusOr<Output> PlaceResult(device::Lane& lane, const Product& product,
                                   Destination Product::*result,
                                   absl::Span<const Product> all, int& copies) {
  const jit::MatrixLayout layout = product.problem.d();
  const Destination& to = product.*result;
  if (to.tensor == nullptr && device::IsOnDevice(to.place.region.get())) {
    Output output;
    if (!WritesWhatIsRead(product, result, all)) {
      output.owned = lane.Borrow(to.place, layout, to.pitch_bytes);
    }
    output.matrix = output.owned.get();
    output.is_borrowed = output.owned != nullptr;
    if (output.is_borrowed) return output;
    ++copies;
  }
  return Place(lane, to.tensor, layout);
}

// What the epilogue of a product takes and gives beside C and D.
absl::Status PlaceEpilogue(device::Lane& lane, Forms* forms,
                           const Product& product,
                           const RequestContext& context, Placed& all) {
  const jit::Problem& problem = product.problem;
  const auto bring = [&](const Input& input, const jit::MatrixLayout& layout) {
    return Bring(lane, forms, input, layout, context, all.copies);
  };
  ASSIGN_OR_RETURN(all.bias, bring(product.bias, problem.bias()));
  if (problem.reads_ab()) {
    ASSIGN_OR_RETURN(all.a_scale, bring(product.a_scale, problem.a_scale()));
    ASSIGN_OR_RETURN(all.b_scale, bring(product.b_scale, problem.b_scale()));
  }
  ASSIGN_OR_RETURN(all.d_scale, bring(product.d_scale, problem.d_scale()));
  if (problem.epilogue.measures_amax) {
    ASSIGN_OR_RETURN(all.amax, Place(lane, nullptr, problem.amax()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const char> WrittenBytes(const Destination& to,
                                    const jit::MatrixLayout& layout) {
  if (to.place.region == nullptr || layout.empty()) return {};
  const int64_t bytes =
      (layout.lines() - 1) * to.pitch_bytes + layout.width_bytes();
  return {to.place.bytes(), static_cast<size_t>(bytes)};
}

ResultSpan ResultsOf(const jit::Problem& problem) {
  const size_t count =
      problem.writes() ? 1 + problem.epilogue.writes_auxiliary : 0;
  return ResultSpan(kResults).first(count);
}

bool MayBeAbandoned(const Product& product) {
  for (const auto result : kResults) {
    if ((product.*result).place.region != nullptr) return false;
  }
  if (product.bytes != nullptr) return true;
  return absl::c_all_of(kInputs, [&](Input Product::*input) {
    return (product.*input).pieces.empty() || (product.*input).region;
  });
}

absl::StatusOr<Placed> PlaceProduct(device::Lane& lane,
                                    const Prepared& prepared,
                                    const Product& product,
                                    absl::Span<const Product> all,
                                    const RequestContext& context) {
  const jit::Problem& problem = product.problem;
  Placed placed;
  int& copies = placed.copies;
  if (problem.reads_ab()) {
    const jit::Plan& plan = prepared.plan;
    ASSIGN_OR_RETURN(placed.a,
                     BringOperand(lane, prepared.forms, product.a, problem.a(),
                                  plan.a_form, context, copies));
    ASSIGN_OR_RETURN(placed.b,
                     BringOperand(lane, prepared.forms, product.b, problem.b(),
                                  plan.b_form, context, copies));
  }
  if (problem.reads_c()) {
    ASSIGN_OR_RETURN(placed.c, Bring(lane, prepared.forms, product.c,
                                     problem.c(), context, copies));
  }
  RETURN_IF_ERROR(
      PlaceEpilogue(lane, prepared.forms, product, context, placed));
  if (problem.epilogue.writes_auxiliary) {
    ASSIGN_OR_RETURN(
        placed.auxiliary,
        PlaceResult(lane, product, &Product::auxiliary, all, copies));
  }
  ASSIGN_OR_RETURN(placed.d,
                   PlaceResult(lane, product, &Product::d, all, copies));
  return placed;
}

device::Operands OperandsOf(const jit::Problem& problem, const Placed& placed) {
  return {.a = placed.a.values.matrix,
          .b = placed.b.values.matrix,
          .metadata = problem.sparse == jit::Sparse::kB
                          ? placed.b.metadata.matrix
                          : placed.a.metadata.matrix,
          .c = placed.c.matrix,
          .d = placed.d.matrix,
          .bias = placed.bias.matrix,
          .a_scale = placed.a_scale.matrix,
          .b_scale = placed.b_scale.matrix,
          .d_scale = placed.d_scale.matrix,
          .auxiliary = placed.auxiliary.matrix,
          .amax = placed.amax.matrix};
}

void NoteWrites(const Product& product) {
  for (const auto result : ResultsOf(product.problem)) {
    Tensor* const tensor = (product.*result).tensor.get();
    if (tensor != nullptr) TensorLocks::NoteWrite(*tensor);
  }
}

absl::Status Launch(device::Lane& lane, const Prepared& prepared,
                    const Product& product, const Placed& placed) {
  NoteWrites(product);
  return lane.Multiply(product.problem, prepared.plan, *prepared.kernel->kernel,
                       OperandsOf(product.problem, placed));
}

absl::StatusOr<float> DownloadValue(device::Lane& lane,
                                    const device::Matrix& matrix) {
  ASSIGN_OR_RETURN(auto bytes, lane.Download(matrix, {0, 1}, sizeof(float)));
  float value;
  std::memcpy(&value, bytes->bytes().data(), sizeof value);
  return value;
}

namespace {

// What is returned of an output: nothing where it went to a tensor or a region,
// to which it is copied unless it is there.
absl::StatusOr<std::unique_ptr<device::HostBuffer>> Deliver(
    device::Lane& lane, const Output& output, const Destination& to) {
  if (output.owned == nullptr || output.is_borrowed) return nullptr;
  const device::Matrix& matrix = *output.matrix;
  const device::LineRange lines = {0, matrix.layout().lines()};
  if (to.place.region == nullptr) {
    return lane.Download(matrix, lines, to.pitch_bytes);
  }
  RETURN_IF_ERROR(lane.DownloadTo(to.place, matrix, lines, to.pitch_bytes));
  return nullptr;
}

}  // namespace

absl::StatusOr<Results> DownloadResults(device::Lane& lane,
                                        const Product& product,
                                        const Placed& placed) {
  Results results;
  results.copies = placed.copies;
  ASSIGN_OR_RETURN(results.d, Deliver(lane, placed.d, product.d));
  ASSIGN_OR_RETURN(results.auxiliary,
                   Deliver(lane, placed.auxiliary, product.auxiliary));
  if (placed.amax.matrix != nullptr) {
    ASSIGN_OR_RETURN(results.amax, DownloadValue(lane, *placed.amax.matrix));
  }
  return results;
}

namespace {

absl::StatusOr<Results> Run(device::Lane& lane, const Prepared& prepared,
                            const Product& product,
                            const RequestContext& context, Phases& phases) {
  device::Stopwatch stopwatch;
  ASSIGN_OR_RETURN(const Placed placed, PlaceProduct(lane, prepared, product,
                                                     {&product, 1}, context));
  phases.upload = stopwatch.Lap();

  RETURN_IF_ERROR(context.Check("launch"));
  RETURN_IF_ERROR(Launch(lane, prepared, product, placed));
  RETURN_IF_ERROR(lane.Synchronize());
  phases.kernels = phases.execute = stopwatch.Lap();

  ASSIGN_OR_RETURN(Results results, DownloadResults(lane, product, placed));
  phases.download = stopwatch.Lap();
  return results;
}

}  // namespace

absl::StatusOr<Results> RunProduct(device::Lane& lane, const Prepared& prepared,
                                   const Product& product,
                                   const RequestContext& context,
                                   Phases& phases) {
  absl::StatusOr<Results> results =
      Run(lane, prepared, product, context, phases);
  // What was enqueued before an error may still read memory of a client, which
  // is to have it back.
  if (!results.ok()) lane.Synchronize().IgnoreError();
  return results;
}

}  // namespace gemmd::engine
