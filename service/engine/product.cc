#include "service/engine/product.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "jit/base/status.h"

namespace gemmd::engine {
namespace {

// Time since the last call, or since construction.
class Stopwatch {
 public:
  absl::Duration Lap() {
    const absl::Time now = absl::Now();
    return now - std::exchange(last_, now);
  }

 private:
  absl::Time last_ = absl::Now();
};

// An input on the device: a tensor's matrix, or one made for this product.
struct Resident {
  std::unique_ptr<device::Matrix> owned;
  KeptForms::Shared kept;
  const device::Matrix* matrix = nullptr;
};

// `count` of the bytes in `pieces`, from `first` on.
std::vector<absl::Span<const char>> Cut(
    absl::Span<const absl::Span<const char>> pieces, int64_t first,
    int64_t count) {
  std::vector<absl::Span<const char>> part;
  for (const absl::Span<const char>& piece : pieces) {
    const int64_t size = piece.size();
    if (first < size && count > 0) {
      part.push_back(piece.subspan(first, count));
      count -= part.back().size();
    }
    first = std::max<int64_t>(0, first - size);
  }
  return part;
}

// Matrices that lie one behind the other travel as one; others one by one.
absl::Status UploadBatch(device::Lane& lane, const Input& input,
                         device::Matrix& matrix) {
  const jit::MatrixLayout& layout = matrix.layout();
  const int64_t lines = layout.matrix_lines();
  if (layout.count == 1 || input.matrix_bytes == lines * input.pitch_bytes) {
    return lane.Upload({input.pieces, input.pitch_bytes}, {0, layout.lines()},
                       matrix);
  }
  const int64_t bytes = (lines - 1) * input.pitch_bytes + layout.width_bytes();
  for (int64_t i = 0; i < layout.count; ++i) {
    const auto pieces = Cut(input.pieces, i * input.matrix_bytes, bytes);
    RETURN_IF_ERROR(
        lane.Upload({pieces, input.pitch_bytes}, {i * lines, lines}, matrix));
  }
  return absl::OkStatus();
}

// Nothing for an empty matrix.
absl::StatusOr<Resident> Bring(device::Lane& lane, const Input& input,
                               const jit::MatrixLayout& layout) {
  Resident resident;
  if (layout.empty()) return resident;
  if (input.tensor != nullptr) {
    resident.matrix = &TensorLocks::matrix(*input.tensor);
    return resident;
  }
  ASSIGN_OR_RETURN(resident.owned, lane.Allocate(layout));
  RETURN_IF_ERROR(UploadBatch(lane, input, *resident.owned));
  resident.matrix = resident.owned.get();
  return resident;
}

// `form`, which is derived, of an operand that was brought: that of a tensor is
// kept with it, that of bytes lives as long as the product.
absl::StatusOr<Resident> DeriveForm(device::Lane& lane, Forms& forms,
                                    const Input& input, const Resident& stored,
                                    jit::Form form, absl::Time deadline) {
  Resident resident;
  if (input.tensor != nullptr) {
    Tensor& tensor = *input.tensor;
    ASSIGN_OR_RETURN(
        resident.kept,
        forms.Of(lane, tensor.forms(), *stored.matrix,
                 TensorLocks::version(tensor), form, deadline));
    resident.matrix = resident.kept->matrix.get();
    return resident;
  }
  ASSIGN_OR_RETURN(resident.owned,
                   forms.Derive(lane, *stored.matrix, form, deadline));
  resident.matrix = resident.owned.get();
  return resident;
}

// An operand as the plan reads it: in its form, or as it is stored and the
// metadata beside it.
struct Operand {
  Resident values, metadata;
};

absl::StatusOr<Operand> BringOperand(device::Lane& lane, Forms* forms,
                                     const Input& input,
                                     const jit::MatrixLayout& layout,
                                     jit::Form form, absl::Time deadline) {
  Operand operand;
  ASSIGN_OR_RETURN(Resident stored, Bring(lane, input, layout));
  const bool derives =
      forms != nullptr && forms->Derives(form) && !layout.empty();
  if (!derives) {
    operand.values = std::move(stored);
    return operand;
  }
  ASSIGN_OR_RETURN(Resident derived, DeriveForm(lane, *forms, input, stored,
                                                form, deadline));
  if (form != jit::Form::kMetadata) {
    operand.values = std::move(derived);
    return operand;
  }
  operand.values = std::move(stored);
  operand.metadata = std::move(derived);
  return operand;
}

// An output on the device: a tensor's matrix, or one made for this product.
struct Output {
  std::unique_ptr<device::Matrix> owned;
  device::Matrix* matrix = nullptr;
};

absl::StatusOr<Output> Place(device::Lane& lane,
                             const std::shared_ptr<Tensor>& tensor,
                             const jit::MatrixLayout& layout) {
  Output output;
  if (tensor != nullptr) {
    if (!TensorLocks::has_elements(*tensor)) {
      ASSIGN_OR_RETURN(auto matrix, lane.Allocate(layout));
      TensorLocks::Replace(*tensor, {tensor->TakeRoom().value_or(QuotaHold()),
                                     std::move(matrix)});
    }
    output.matrix = &TensorLocks::matrix(*tensor);
    return output;
  }
  ASSIGN_OR_RETURN(output.owned, lane.Allocate(layout));
  output.matrix = output.owned.get();
  return output;
}

// What the epilogue of a product takes and gives beside C and D.
struct EpilogueMatrices {
  Resident bias, a_scale, b_scale, d_scale;
  Output auxiliary, amax;
};

absl::StatusOr<EpilogueMatrices> BringEpilogue(device::Lane& lane,
                                               const Product& product) {
  const jit::Problem& problem = product.problem;
  EpilogueMatrices all;
  ASSIGN_OR_RETURN(all.bias, Bring(lane, product.bias, problem.bias()));
  if (problem.reads_ab()) {
    ASSIGN_OR_RETURN(all.a_scale,
                     Bring(lane, product.a_scale, problem.a_scale()));
    ASSIGN_OR_RETURN(all.b_scale,
                     Bring(lane, product.b_scale, problem.b_scale()));
  }
  ASSIGN_OR_RETURN(all.d_scale,
                   Bring(lane, product.d_scale, problem.d_scale()));
  if (problem.epilogue.writes_auxiliary) {
    ASSIGN_OR_RETURN(all.auxiliary,
                     Place(lane, product.auxiliary, problem.d()));
  }
  if (problem.epilogue.measures_amax) {
    ASSIGN_OR_RETURN(all.amax, Place(lane, nullptr, problem.amax()));
  }
  return all;
}

absl::StatusOr<float> DownloadValue(device::Lane& lane,
                                    const device::Matrix& matrix) {
  ASSIGN_OR_RETURN(auto bytes, lane.Download(matrix, {0, 1}, sizeof(float)));
  float value;
  std::memcpy(&value, bytes->bytes().data(), sizeof value);
  return value;
}

}  // namespace

absl::StatusOr<Results> RunProduct(device::Lane& lane, const Prepared& prepared,
                                   const Product& product,
                                   const RequestContext& context,
                                   Phases& phases) {
  const jit::Problem& problem = product.problem;
  Stopwatch stopwatch;
  Operand a, b;
  Resident c;
  if (problem.reads_ab()) {
    const jit::Plan& plan = prepared.plan;
    ASSIGN_OR_RETURN(
        a, BringOperand(lane, prepared.forms, product.a, problem.a(),
                        plan.a_form, context.deadline));
    ASSIGN_OR_RETURN(
        b, BringOperand(lane, prepared.forms, product.b, problem.b(),
                        plan.b_form, context.deadline));
  }
  if (problem.reads_c()) {
    ASSIGN_OR_RETURN(c, Bring(lane, product.c, problem.c()));
  }
  ASSIGN_OR_RETURN(EpilogueMatrices epilogue, BringEpilogue(lane, product));
  ASSIGN_OR_RETURN(Output d, Place(lane, product.d, problem.d()));
  phases.upload = stopwatch.Lap();

  RETURN_IF_ERROR(context.Check("launch"));
  RETURN_IF_ERROR(lane.Multiply(problem, prepared.plan,
                                *prepared.kernel->kernel,
                                {.a = a.values.matrix,
                                 .b = b.values.matrix,
                                 .metadata = problem.sparse == jit::Sparse::kB
                                                 ? b.metadata.matrix
                                                 : a.metadata.matrix,
                                 .c = c.matrix,
                                 .d = d.matrix,
                                 .bias = epilogue.bias.matrix,
                                 .a_scale = epilogue.a_scale.matrix,
                                 .b_scale = epilogue.b_scale.matrix,
                                 .d_scale = epilogue.d_scale.matrix,
                                 .auxiliary = epilogue.auxiliary.matrix,
                                 .amax = epilogue.amax.matrix}));
  RETURN_IF_ERROR(lane.Synchronize());
  phases.execute = stopwatch.Lap();

  Results results;
  const device::LineRange lines = {0, problem.d().lines()};
  if (d.owned != nullptr) {
    ASSIGN_OR_RETURN(results.d,
                     lane.Download(*d.matrix, lines, product.d_pitch_bytes));
  }
  if (epilogue.auxiliary.owned != nullptr) {
    ASSIGN_OR_RETURN(results.auxiliary,
                     lane.Download(*epilogue.auxiliary.matrix, lines,
                                   product.auxiliary_pitch_bytes));
  }
  if (epilogue.amax.matrix != nullptr) {
    ASSIGN_OR_RETURN(results.amax, DownloadValue(lane, *epilogue.amax.matrix));
  }
  phases.download = stopwatch.Lap();
  return results;
}

}  // namespace gemmd::engine
