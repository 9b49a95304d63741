#include "service/rpc/matmul_request.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/rpc/convert.h"
#include "service/rpc/tensor_info.h"
#include "service/rpc/wire_layout.h"
#include "service/rpc/wire_reader.h"

namespace gemmd::rpc {
namespace {

// A header takes a few hundred bytes.
constexpr int64_t kMaxHeaderBytes = 64 << 10;

// The tensor that `field` names, when it fits the problem.
absl::StatusOr<std::shared_ptr<engine::Tensor>> FindTensor(
    const Asker& asker, const std::string& handle,
    const jit::MatrixLayout& wanted, absl::string_view field) {
  auto tensor = asker.runtime.engine.tensors().Find(handle, asker.identity);
  if (!tensor.ok()) {
    return absl::Status(
        tensor.status().code(),
        absl::StrCat(field, ".tensor: ", tensor.status().message()));
  }
  if ((*tensor)->layout() != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".tensor is ", LayoutText((*tensor)->layout()),
                     "; allowed for this problem: ", LayoutText(wanted)));
  }
  return tensor;
}

// The layout whose bytes are those of `layout`'s transpose.
jit::MatrixLayout Transposed(jit::MatrixLayout layout) {
  std::swap(layout.rows, layout.columns);
  layout.order = layout.order == jit::Order::kRowMajor
                     ? jit::Order::kColumnMajor
                     : jit::Order::kRowMajor;
  return layout;
}

absl::StatusOr<engine::Input> ToInput(const Asker& asker,
                                      const v1::Source& source, Pieces pieces,
                                      const jit::MatrixLayout& layout,
                                      absl::string_view field) {
  engine::Input input;
  if (source.has_tensor()) {
    if (!pieces.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " has ", SizeOf(pieces),
                       " bytes; allowed: 0, because its source is a tensor"));
    }
    const jit::MatrixLayout stored =
        source.transposed() ? Transposed(layout) : layout;
    ASSIGN_OR_RETURN(input.tensor,
                     FindTensor(asker, source.tensor(), stored, field));
    return input;
  }
  if (source.transposed()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field,
        ".transposed is true; allowed for tensors alone, because the "
        "order of inline operands is in the problem"));
  }
  ASSIGN_OR_RETURN(
      const WireLayout wire,
      ToWireLayout(source.inline_(), layout, absl::StrCat(field, ".inline")));
  RETURN_IF_ERROR(CheckLength(wire, SizeOf(pieces), field));
  input.pieces = std::move(pieces);
  input.pitch_bytes = wire.pitch_bytes;
  input.matrix_bytes = wire.matrix_bytes;
  return input;
}

// A result: in a tensor, or returned with its lines `pitch_bytes` apart.
struct Output {
  std::shared_ptr<engine::Tensor> tensor;
  int64_t pitch_bytes = 0;
  int64_t bytes = 0;  // Of what is returned.
};

absl::StatusOr<Output> ToOutput(const Asker& asker,
                                const v1::Destination& destination,
                                const engine::Product& product,
                                absl::string_view field) {
  const jit::MatrixLayout layout = product.problem.d();
  Output output;
  if (!destination.has_tensor()) {
    ASSIGN_OR_RETURN(const WireLayout wire,
                     ToWireLayout(destination.inline_(), layout,
                                  absl::StrCat(field, ".inline")));
    RETURN_IF_ERROR(CheckTight(wire, layout, absl::StrCat(field, ".inline")));
    output.pitch_bytes = wire.pitch_bytes;
    output.bytes = wire.least_bytes;
    return output;
  }
  ASSIGN_OR_RETURN(output.tensor,
                   FindTensor(asker, destination.tensor(), layout, field));
  for (const engine::Input* input :
       {&product.a, &product.b, &product.bias, &product.a_scale,
        &product.b_scale, &product.d_scale}) {
    if (output.tensor != input->tensor) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        field,
        ".tensor is also an input; allowed: a tensor of its own, or "
        "c's for d"));
  }
  return output;
}

// Where D and the auxiliary result go.
absl::Status SetOutputs(const Asker& asker, const v1::MatmulHeader& header,
                        MatmulRequest& request) {
  engine::Product& product = request.product;
  ASSIGN_OR_RETURN(Output d, ToOutput(asker, header.d(), product, "d"));
  Output auxiliary;
  if (product.problem.epilogue.writes_auxiliary) {
    ASSIGN_OR_RETURN(auxiliary,
                     ToOutput(asker, header.auxiliary(), product, "auxiliary"));
    if (auxiliary.tensor != nullptr) {
      return absl::UnimplementedError("auxiliary is a tensor; served: inline");
    }
  }
  const int64_t limit = asker.runtime.limits.max_message_bytes;
  // The execution record takes a few hundred bytes beside them.
  if (d.bytes > limit - kMaxHeaderBytes ||
      auxiliary.bytes > limit - kMaxHeaderBytes - d.bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "d has ", d.bytes, " bytes",
        auxiliary.bytes == 0 ? "" : absl::StrCat(", auxiliary as many"),
        "; a response is limited to ", limit, " bytes. Let d be a tensor."));
  }
  request.result_bytes = d.bytes + auxiliary.bytes;
  product.d = std::move(d.tensor);
  product.d_pitch_bytes = d.pitch_bytes;
  product.auxiliary = std::move(auxiliary.tensor);
  product.auxiliary_pitch_bytes = auxiliary.pitch_bytes;
  return absl::OkStatus();
}

// Where the bytes of a field belong; null for fields that are not operands.
Pieces* FieldOf(int number, MatmulFields& fields) {
  switch (number) {
    case v1::MatmulRequest::kAFieldNumber:
      return &fields.a;
    case v1::MatmulRequest::kBFieldNumber:
      return &fields.b;
    case v1::MatmulRequest::kCFieldNumber:
      return &fields.c;
    case v1::MatmulRequest::kBiasFieldNumber:
      return &fields.bias;
    case v1::MatmulRequest::kAScaleFieldNumber:
      return &fields.a_scale;
    case v1::MatmulRequest::kBScaleFieldNumber:
      return &fields.b_scale;
    case v1::MatmulRequest::kDScaleFieldNumber:
      return &fields.d_scale;
    default:
      return nullptr;
  }
}

// Whether one matrix is given for all products of a batch.
bool IsBroadcast(const Asker& asker, const v1::Source& source, int64_t batch) {
  if (batch == 1) return false;
  if (!source.has_tensor()) {
    return source.inline_().has_batch_stride() &&
           source.inline_().batch_stride() == 0;
  }
  // A handle that is unknown is refused where its field is named.
  const auto tensor =
      asker.runtime.engine.tensors().Find(source.tensor(), asker.identity);
  return tensor.ok() && (*tensor)->layout().count == 1;
}

// The values of the epilogue, as far as they are read.
absl::Status SetEpilogue(const Asker& asker, const v1::MatmulHeader& header,
                         MatmulFields& fields, engine::Product& product) {
  const jit::Problem& problem = product.problem;
  const auto set = [&](const v1::Source& source, Pieces& pieces,
                       const jit::MatrixLayout& layout, absl::string_view field,
                       engine::Input& to) -> absl::Status {
    if (layout.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(to,
                     ToInput(asker, source, std::move(pieces), layout, field));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(
      set(header.bias(), fields.bias, problem.bias(), "bias", product.bias));
  if (problem.reads_ab()) {
    RETURN_IF_ERROR(set(header.a_scale(), fields.a_scale, problem.a_scale(),
                        "a_scale", product.a_scale));
    RETURN_IF_ERROR(set(header.b_scale(), fields.b_scale, problem.b_scale(),
                        "b_scale", product.b_scale));
  }
  return set(header.d_scale(), fields.d_scale, problem.d_scale(), "d_scale",
             product.d_scale);
}

absl::StatusOr<int> ChooseDevice(Runtime& runtime, const std::string& name,
                                 const engine::Product& product) {
  int device = -1;
  if (!name.empty()) {
    ASSIGN_OR_RETURN(device, runtime.engine.ChooseDevice(name));
  }
  for (const engine::Tensor* tensor :
       {product.a.tensor.get(), product.b.tensor.get(), product.c.tensor.get(),
        product.d.get(), product.bias.tensor.get(),
        product.a_scale.tensor.get(), product.b_scale.tensor.get(),
        product.d_scale.tensor.get(), product.auxiliary.get()}) {
    if (tensor == nullptr) continue;
    const int home = tensor->identity().device;
    if (device != -1 && device != home) {
      const auto device_name = [&](int i) {
        return runtime.engine.device(i).description().name;
      };
      return absl::InvalidArgumentError(absl::StrCat(
          "device: a tensor lives on ", device_name(home), " and not on ",
          device_name(device), "; allowed: tensors of one device"));
    }
    device = home;
  }
  if (device != -1) return device;
  return runtime.engine.ChooseDevice("");
}

}  // namespace

absl::StatusOr<MatmulFields> ReadMatmulFields(absl::Span<const Piece> pieces) {
  MatmulFields fields;
  WireReader reader(pieces);
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return fields;
    if (!reader.length_delimited()) continue;  // Unknown to us.
    switch (reader.number()) {
      case v1::MatmulRequest::kHeaderFieldNumber: {
        const int64_t size = SizeOf(reader.value());
        if (size > kMaxHeaderBytes) {
          return absl::InvalidArgumentError(absl::StrCat(
              "header has ", size, " bytes; allowed: 0 to ", kMaxHeaderBytes));
        }
        if (!fields.header.MergeFromString(Join(reader.value()))) {
          return absl::InvalidArgumentError(
              "header is not a serialised MatmulHeader");
        }
        break;
      }
      default:
        if (Pieces* pieces = FieldOf(reader.number(), fields)) {
          *pieces = reader.value();
        }
    }
  }
}

absl::StatusOr<MatmulRequest> ToMatmulRequest(MatmulFields fields,
                                              const Asker& asker) {
  MatmulRequest request;
  engine::Product& product = request.product;
  const v1::MatmulHeader& header = fields.header;
  if (!header.has_problem()) {
    return absl::InvalidArgumentError("header.problem is missing");
  }
  ASSIGN_OR_RETURN(product.problem, ToProblem(header.problem()));
  jit::Problem& problem = product.problem;
  problem.a_broadcast = IsBroadcast(asker, header.a(), problem.batch);
  problem.b_broadcast = IsBroadcast(asker, header.b(), problem.batch);
  request.operand_bytes = SizeOf(fields.a) + SizeOf(fields.b) +
                          SizeOf(fields.c) + SizeOf(fields.bias) +
                          SizeOf(fields.a_scale) + SizeOf(fields.b_scale) +
                          SizeOf(fields.d_scale);
  if (problem.reads_ab()) {
    ASSIGN_OR_RETURN(product.a, ToInput(asker, header.a(), std::move(fields.a),
                                        problem.a(), "a"));
    ASSIGN_OR_RETURN(product.b, ToInput(asker, header.b(), std::move(fields.b),
                                        problem.b(), "b"));
  }
  if (problem.reads_c()) {
    ASSIGN_OR_RETURN(product.c, ToInput(asker, header.c(), std::move(fields.c),
                                        problem.c(), "c"));
  }
  RETURN_IF_ERROR(SetEpilogue(asker, header, fields, product));
  RETURN_IF_ERROR(SetOutputs(asker, header, request));
  ASSIGN_OR_RETURN(request.device,
                   ChooseDevice(asker.runtime, header.device(), product));
  return request;
}

}  // namespace gemmd::rpc
