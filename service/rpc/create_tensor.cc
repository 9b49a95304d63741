#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/problem/metadata.h"
#include "jit/problem/problem.h"
#include "service/rpc/convert.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/methods.h"
#include "service/rpc/take_temporaries.h"
#include "service/rpc/tensor_info.h"

namespace gemmd::rpc {
namespace {

constexpr size_t kMaxLabelBytes = 128;
// Ten years; more cannot be meant.
constexpr int64_t kMaxTtlSeconds = int64_t{10} * 366 * 86400;

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t least,
                        int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; allowed: ", least, " to ", most));
}

absl::Status CheckSparse(const jit::MatrixLayout& layout) {
  if (!layout.sparse) return absl::OkStatus();
  RETURN_IF_ERROR(jit::CheckSparseType("dtype is", layout.type));
  const int chunk = jit::ChunkOf(layout.type);
  if (layout.width() % chunk == 0) return absl::OkStatus();
  const bool rows = layout.order == jit::Order::kRowMajor;
  return absl::InvalidArgumentError(
      absl::StrCat(rows ? "columns is " : "rows is ", layout.width(),
                   "; allowed in a sparse tensor of ", jit::Name(layout.type),
                   rows ? ", whose rows" : ", whose columns",
                   " run along k: multiples of ", chunk));
}

absl::StatusOr<engine::TensorSpec> ToSpec(
    Runtime& runtime, const v1::CreateTensorRequest& request) {
  engine::TensorSpec spec;
  ASSIGN_OR_RETURN(spec.layout.type, ToDataType(request.dtype(), "dtype"));
  RETURN_IF_ERROR(CheckRange("rows", request.rows(), 1, jit::kMaxDimension));
  RETURN_IF_ERROR(
      CheckRange("columns", request.columns(), 1, jit::kMaxDimension));
  RETURN_IF_ERROR(CheckRange("count", request.count(), 0, jit::kMaxDimension));
  spec.layout.count = std::max<int64_t>(request.count(), 1);
  spec.layout.rows = request.rows();
  spec.layout.columns = request.columns();
  ASSIGN_OR_RETURN(spec.layout.order, ToOrder(request.order(), "order"));
  ASSIGN_OR_RETURN(spec.layout.sparse,
                   ToSparsity(request.sparsity(), "sparsity"));
  RETURN_IF_ERROR(CheckSparse(spec.layout));
  if (request.has_quantization()) {
    ASSIGN_OR_RETURN(
        const jit::Quantization quantization,
        convert::ToQuantization(request.quantization(), "quantization"));
    RETURN_IF_ERROR(
        jit::Validate(quantization, spec.layout.type, "quantization"));
    if (spec.layout.sparse) {
      return absl::InvalidArgumentError(
          "quantization is given; allowed: none in a sparse tensor");
    }
    spec.layout.quantization = quantization;
  }
  RETURN_IF_ERROR(CheckRange("lifetime", request.lifetime(),
                             v1::CreateTensorRequest::LIFETIME_UNSPECIFIED,
                             v1::CreateTensorRequest::LIFETIME_CONNECTION));
  if (request.lifetime() == v1::CreateTensorRequest::LIFETIME_CONNECTION) {
    spec.lifetime = engine::Lifetime::kConnection;
  }
  RETURN_IF_ERROR(CheckRange("ttl_s", request.ttl_s(), 0, kMaxTtlSeconds));
  spec.ttl = request.ttl_s() == 0 ? runtime.limits.tensor_ttl
                                  : absl::Seconds(request.ttl_s());
  if (request.label().size() > kMaxLabelBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("label has ", request.label().size(),
                     " bytes; allowed: 0 to ", kMaxLabelBytes));
  }
  spec.label = request.label();
  RETURN_IF_ERROR(CheckTensorBytes(runtime, spec.layout, "the tensor"));
  if (!request.device().empty()) {
    ASSIGN_OR_RETURN(spec.device,
                     runtime.engine.ChooseDevice(request.device()));
  }
  return spec;
}

}  // namespace

Async<absl::StatusOr<v1::TensorInfo>> CreateTensor(
    Runtime& runtime, Call& call, const v1::CreateTensorRequest& request) {
  CO_ASSIGN_OR_RETURN(engine::TensorSpec spec, ToSpec(runtime, request));
  auto create = CallEngine<std::shared_ptr<engine::Tensor>>(
      call.loop(), [&](engine::Done<std::shared_ptr<engine::Tensor>> done) {
        runtime.engine.CreateTensor(std::move(spec), call.request_context(),
                                    std::move(done));
      });
  absl::StatusOr<std::shared_ptr<engine::Tensor>> tensor = co_await create;
  if (!tensor.ok()) co_return tensor.status();
  // Nobody knows the handle then.
  call.IfUndelivered([&runtime, tensor = (*tensor)->identity()] {
    runtime.engine.tensors().Delete(tensor.handle, tensor.owner).IgnoreError();
  });
  co_return ToWire(**tensor, runtime.engine);
}

}  // namespace gemmd::rpc
