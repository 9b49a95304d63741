#include "service/rpc/kserve/infer.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "service/engine/try_again.h"
#include "service/rpc/background.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/kserve/datatype.h"
#include "service/rpc/kserve/find_model.h"
#include "service/rpc/kserve/infer_request.h"
#include "service/rpc/kserve/inference.h"
#include "service/rpc/matmul_request.h"

namespace gemmd::rpc::kserve {
namespace {

// What is known of D before it is there.
struct Answer {
  std::string model;
  std::string id;
  Dimensions shape;
  jit::DataType type;
};

void SetText(inference::ModelInferResponse& response, const char* name,
             const std::string& value) {
  (*response.mutable_parameters())[name].set_string_param(value);
}

WireWriter ToResponse(const Answer& answer, engine::ProductResult result,
                      Counters& counters) {
  inference::ModelInferResponse response;
  response.set_model_name(answer.model);
  response.set_model_version(Version());
  response.set_id(answer.id);
  SetText(response, "device", result.execution.device);
  SetText(response, "kernel", result.execution.kernel);
  auto& output = *response.add_outputs();
  output.set_name(kD);
  output.set_datatype(std::string(NameOf(answer.type)));
  for (const int64_t size : answer.shape) output.add_shape(size);
  // Each output has one, also where it is empty.
  if (result.d == nullptr) response.add_raw_output_contents();
  WireWriter writer;
  writer.AddFields(response);
  if (result.d != nullptr) {
    std::vector<grpc::Slice> slices;
    slices.push_back(Wrap(std::move(result.d)));
    counters.sent_bytes += slices.front().size();
    writer.AddBytes(
        inference::ModelInferResponse::kRawOutputContentsFieldNumber,
        std::move(slices));
  }
  return writer;
}

models::Counts CountsOf(const engine::Phases& phases, absl::Duration all) {
  models::Counts counts;
  counts.last = absl::Now();
  counts.succeeded.Add(all);
  counts.queue.Add(phases.queue);
  counts.input.Add(phases.upload);
  counts.compute.Add(phases.plan + phases.compile + phases.execute);
  counts.output.Add(phases.download);
  return counts;
}

// Room for more than the message that was read.
absl::Status TakeMore(Call& call, int64_t bytes, absl::string_view why) {
  if (call.TryTakeRequest(HeldBytes(bytes))) return absl::OkStatus();
  call.metrics().Rejected(Rejection::kRequestBudget);
  return engine::TryAgainError(
      absl::StrCat(why, " take ", bytes, " bytes, for which there is no room"),
      absl::Milliseconds(100));
}

// Not on the loop where that could take longer than others may wait for theirs.
Async<absl::StatusOr<Inference>> Prepare(Runtime& runtime, Call& call,
                                         InferRequest& request,
                                         const models::Model& model) {
  CO_RETURN_IF_ERROR(TakeMore(
      call, DecodedBytes(request),
      "the contents of inputs, beside what raw_input_contents would take,"));
  const auto prepare = [&]() -> absl::StatusOr<Inference> {
    RETURN_IF_ERROR(Decode(request));
    return ToInference(request, model, runtime.limits.max_message_bytes);
  };
  std::optional<absl::StatusOr<Inference>> inference;
  if (TakesLong(request)) {
    auto later = InBackground<Inference>(runtime, call, prepare);
    inference = co_await later;
  } else {
    inference = prepare();
  }
  if (inference->ok()) {
    CO_RETURN_IF_ERROR(TakeMore(call, (*inference)->repeated_bytes,
                                "lists of the matrices that are repeated"));
  }
  co_return *std::move(inference);
}

Async<absl::StatusOr<WireWriter>> Run(Runtime& runtime, Call& call,
                                      InferHeader header, models::Model& model,
                                      absl::Time start) {
  CO_ASSIGN_OR_RETURN(InferRequest request, ToInferRequest(std::move(header)));
  auto prepare = Prepare(runtime, call, request, model);
  CO_ASSIGN_OR_RETURN(Inference inference, co_await prepare);
  const Asker asker(runtime, call.request_context().identity, &inference.bound);
  CO_ASSIGN_OR_RETURN(MatmulRequest product,
                      ToMatmulRequest(std::move(inference.fields), asker));
  call.counters().received_bytes += product.operand_bytes;
  // Room for the answer comes before the work.
  absl::Status room =
      co_await call.TakeResponse(HeldBytes(product.result_bytes));
  if (!room.ok()) co_return room;
  auto multiply = CallEngine<engine::ProductResult>(
      call.loop(), [&](engine::Done<engine::ProductResult> done) {
        runtime.engine.Multiply(std::move(product.product), product.device,
                                call.request_context(), std::move(done));
      });
  absl::StatusOr<engine::ProductResult> result = co_await multiply;
  if (!result.ok()) co_return result.status();
  model.usage().Add(WhoCounts(call), CountsOf(result->execution.phases,
                                              jit::SteadyNow() - start));
  co_return ToResponse({.model = model.spec().name,
                        .id = request.header.id(),
                        .shape = inference.shape,
                        .type = inference.type},
                       *std::move(result), call.counters());
}

}  // namespace

Async<absl::StatusOr<WireWriter>> Infer(Runtime& runtime, Call& call,
                                        const Message& message,
                                        std::string* id) {
  const absl::Time start = jit::SteadyNow();
  CO_ASSIGN_OR_RETURN(InferHeader header, ReadInferHeader(message.pieces()));
  if (id != nullptr) *id = header.message.id();
  CO_ASSIGN_OR_RETURN(const models::ModelPointer model,
                      FindModel(runtime, call, header.message.model_name(),
                                header.message.model_version()));
  auto run = Run(runtime, call, std::move(header), *model, start);
  absl::StatusOr<WireWriter> response = co_await run;
  if (!response.ok()) {
    models::Counts failed;
    failed.failed.Add(jit::SteadyNow() - start);
    model->usage().Add(WhoCounts(call), failed);
  }
  co_return response;
}

}  // namespace gemmd::rpc::kserve
