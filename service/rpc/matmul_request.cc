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
    Runtime& runtime, const std::string& handle,
    const jit::MatrixLayout& wanted, absl::string_view field) {
  auto tensor = runtime.engine.tensors().Find(handle);
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

absl::StatusOr<engine::Input> ToInput(Runtime& runtime,
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
    ASSIGN_OR_RETURN(input.tensor,
                     FindTensor(runtime, source.tensor(), layout, field));
    return input;
  }
  ASSIGN_OR_RETURN(
      const WireLayout wire,
      ToWireLayout(source.inline_(), layout, absl::StrCat(field, ".inline")));
  RETURN_IF_ERROR(CheckLength(wire, SizeOf(pieces), field));
  input.pieces = std::move(pieces);
  input.pitch_bytes = wire.pitch_bytes;
  return input;
}

absl::Status SetDestination(Runtime& runtime,
                            const v1::Destination& destination,
                            engine::Product& product) {
  const jit::MatrixLayout layout = product.problem.d();
  if (!destination.has_tensor()) {
    ASSIGN_OR_RETURN(const WireLayout wire,
                     ToWireLayout(destination.inline_(), layout, "d.inline"));
    const int64_t limit = runtime.limits.max_message_bytes;
    // The execution record takes a few hundred bytes beside D.
    if (wire.least_bytes > limit - kMaxHeaderBytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "d has ", wire.least_bytes, " bytes; a response is limited to ",
          limit, " bytes. Let d be a tensor."));
    }
    product.d_pitch_bytes = wire.pitch_bytes;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(product.d,
                   FindTensor(runtime, destination.tensor(), layout, "d"));
  if (product.d == product.a.tensor || product.d == product.b.tensor) {
    return absl::InvalidArgumentError(
        "d.tensor is also an input; allowed: a tensor of its own, or c's");
  }
  return absl::OkStatus();
}

absl::StatusOr<int> ChooseDevice(Runtime& runtime, const std::string& name,
                                 const engine::Product& product) {
  int device = -1;
  if (!name.empty()) {
    ASSIGN_OR_RETURN(device, runtime.engine.ChooseDevice(name));
  }
  for (const engine::Tensor* tensor :
       {product.a.tensor.get(), product.b.tensor.get(), product.c.tensor.get(),
        product.d.get()}) {
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
      case v1::MatmulRequest::kAFieldNumber:
        fields.a = reader.value();
        break;
      case v1::MatmulRequest::kBFieldNumber:
        fields.b = reader.value();
        break;
      case v1::MatmulRequest::kCFieldNumber:
        fields.c = reader.value();
        break;
      default:
        break;
    }
  }
}

absl::StatusOr<MatmulRequest> ToMatmulRequest(MatmulFields fields,
                                              Runtime& runtime) {
  MatmulRequest request;
  engine::Product& product = request.product;
  const v1::MatmulHeader& header = fields.header;
  if (!header.has_problem()) {
    return absl::InvalidArgumentError("header.problem is missing");
  }
  ASSIGN_OR_RETURN(product.problem, ToProblem(header.problem()));
  const jit::Problem& problem = product.problem;
  request.operand_bytes =
      SizeOf(fields.a) + SizeOf(fields.b) + SizeOf(fields.c);
  if (problem.reads_ab()) {
    ASSIGN_OR_RETURN(product.a, ToInput(runtime, header.a(),
                                        std::move(fields.a), problem.a(), "a"));
    ASSIGN_OR_RETURN(product.b, ToInput(runtime, header.b(),
                                        std::move(fields.b), problem.b(), "b"));
  }
  if (problem.reads_c()) {
    ASSIGN_OR_RETURN(product.c, ToInput(runtime, header.c(),
                                        std::move(fields.c), problem.c(), "c"));
  }
  RETURN_IF_ERROR(SetDestination(runtime, header.d(), product));
  ASSIGN_OR_RETURN(request.device,
                   ChooseDevice(runtime, header.device(), product));
  return request;
}

}  // namespace gemmd::rpc
