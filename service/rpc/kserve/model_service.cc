#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "proto/convert/problem.h"
#include "service/models/name.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/kserve/datatype.h"
#include "service/rpc/kserve/find_model.h"
#include "service/rpc/kserve/methods.h"
#include "service/rpc/kserve/model_info.h"
#include "service/rpc/tensor_info.h"

namespace gemmd::rpc::kserve {
namespace {

struct Draft {
  models::Spec spec;
  models::Weights weights;
};

absl::Status CheckMayCreate(const Call& call, bool shared) {
  if (call.may_administer()) return absl::OkStatus();
  if (call.principal() == nullptr) {
    return absl::PermissionDeniedError(
        "models belong to all clients here; allowed with --admin-calls");
  }
  if (!shared) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "a shared model needs the role admin; allowed: shared = false");
}

// What is derived from the tensors or fixed is not to be said.
absl::Status CheckProblem(const v1::Problem& problem) {
  if (problem.m() == 0 && problem.n() == 0 && problem.k() == 0 &&
      !problem.has_batch() && problem.b_type() == 0 && problem.a_order() == 0 &&
      problem.b_order() == 0 && problem.d_order() == 0 && !problem.has_beta() &&
      problem.c_type() == 0 && problem.sparsity() == 0 &&
      problem.b_sparsity() == 0 && !problem.has_quantization() &&
      !problem.has_epilogue()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "problem says more than is allowed for a model: a_type, d_type, "
      "accumulator, precision, alpha, activation, saturate and invariant");
}

absl::StatusOr<std::shared_ptr<engine::Tensor>> FindTensor(
    Runtime& runtime, const Call& call, const std::string& handle,
    absl::string_view field) {
  auto tensor =
      runtime.engine.tensors().Find(handle, call.request_context().identity);
  if (tensor.ok()) return tensor;
  return absl::Status(tensor.status().code(),
                      absl::StrCat(field, ": ", tensor.status().message()));
}

absl::StatusOr<jit::Problem> ProblemOf(const v1::CreateModelRequest& request,
                                       const jit::MatrixLayout& b) {
  v1::Problem wire = request.problem();
  RETURN_IF_ERROR(CheckProblem(wire));
  const bool quantized = b.quantization != jit::Quantization();
  if (wire.a_type() == 0) {
    wire.set_a_type(quantized ? v1::DATA_TYPE_BF16 : convert::ToWire(b.type));
  }
  wire.set_b_type(convert::ToWire(b.type));
  if (b.sparse) wire.set_b_sparsity(v1::SPARSITY_2_4);
  if (quantized) {
    *wire.mutable_quantization() = convert::ToWire(b.quantization);
  }
  wire.set_m(1);
  wire.set_k(request.b_transposed() ? b.columns : b.rows);
  wire.set_n(request.b_transposed() ? b.rows : b.columns);
  wire.set_batch(b.count);
  wire.set_b_order(convert::ToWire(
      request.b_transposed() ? jit::Opposite(b.order) : b.order));
  if (!request.bias().empty()) {
    wire.mutable_epilogue()->set_bias(v1::EXTENT_COLUMN);
  }
  ASSIGN_OR_RETURN(jit::Problem problem, convert::ToProblem(wire));
  for (const auto& [name, type] : {std::pair("a_type", problem.a_type),
                                   std::pair("d_type", problem.d_type)}) {
    if (!NameOf(type).empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", jit::Name(type),
                     ", which the inference protocol has no name for; allowed: "
                     "f32, f16, bf16, s8, u8, and s32 of d"));
  }
  return problem;
}

absl::StatusOr<Draft> ToDraft(Runtime& runtime, const Call& call,
                              const v1::CreateModelRequest& request) {
  RETURN_IF_ERROR(CheckMayCreate(call, request.shared()));
  RETURN_IF_ERROR(models::CheckName(request.name()));
  Draft draft;
  draft.spec.name = request.name();
  draft.spec.owner = WhoCounts(call);
  draft.spec.shared = request.shared();
  ASSIGN_OR_RETURN(draft.weights.b,
                   FindTensor(runtime, call, request.b(), "b"));
  ASSIGN_OR_RETURN(draft.spec.problem,
                   ProblemOf(request, draft.weights.b->layout()));
  if (request.bias().empty()) return draft;
  ASSIGN_OR_RETURN(draft.weights.bias,
                   FindTensor(runtime, call, request.bias(), "bias"));
  const jit::MatrixLayout wanted = draft.spec.problem.bias();
  if (draft.weights.bias->layout() != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("bias is ", LayoutText(draft.weights.bias->layout()),
                     "; allowed for this b: ", LayoutText(wanted)));
  }
  if (draft.weights.bias->identity().device !=
      draft.weights.b->identity().device) {
    return absl::InvalidArgumentError(
        "bias and b live on two devices; allowed: one");
  }
  return draft;
}

}  // namespace

Async<absl::StatusOr<v1::Model>> CreateModel(
    Runtime& runtime, Call& call, const v1::CreateModelRequest& request) {
  CO_ASSIGN_OR_RETURN(Draft draft, ToDraft(runtime, call, request));
  auto create = CallEngine<models::ModelPointer>(
      call.loop(), [&](engine::Done<models::ModelPointer> done) {
        runtime.models.Create(std::move(draft.spec), std::move(draft.weights),
                              call.request_context(), std::move(done));
      });
  absl::StatusOr<models::ModelPointer> model = co_await create;
  if (!model.ok()) co_return model.status();
  co_return ToWire(**model, runtime.engine);
}

Async<absl::StatusOr<v1::ListModelsResponse>> ListModels(
    Runtime& runtime, Call& call, const v1::ListModelsRequest&) {
  v1::ListModelsResponse response;
  for (const auto& model : runtime.models.ListOf(WhoCounts(call))) {
    if (model->weights().b == nullptr) continue;
    *response.add_models() = ToWire(*model, runtime.engine);
  }
  co_return response;
}

Async<absl::StatusOr<v1::DeleteModelResponse>> DeleteModel(
    Runtime& runtime, Call& call, const v1::DeleteModelRequest& request) {
  CO_RETURN_IF_ERROR(CheckMayCreate(call, false));
  auto remove = CallEngine<std::monostate>(
      call.loop(), [&](engine::Done<std::monostate> done) {
        runtime.models.Delete(request.name(), WhoCounts(call),
                              call.may_administer(), std::move(done));
      });
  absl::StatusOr<std::monostate> removed = co_await remove;
  if (!removed.ok()) co_return removed.status();
  co_return v1::DeleteModelResponse();
}

}  // namespace gemmd::rpc::kserve
