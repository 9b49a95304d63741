// Products in order, whose results the later ones read.
//
// What the call has on the device are tensors that it alone knows, as those of
// a stream: so it has their quota, and gives all back by letting go of them.
#include <utility>
#include <vector>

#include "service/rpc/convert.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/handler.h"
#include "service/rpc/matmul_response.h"
#include "service/rpc/methods.h"
#include "service/rpc/sequence_request.h"
#include "service/rpc/take_temporaries.h"

namespace gemmd::rpc {
namespace {

using Response = v1::SequenceResponse;

grpc::ByteBuffer ToMessage(engine::SequenceResult result,
                           bool shares_executions, Call& call) {
  WireWriter writer;
  std::vector<uint64_t> executions;  // Of the steps.
  for (engine::SequenceResult::Step& step : result.steps) {
    executions.push_back(step.execution);
    writer.AddWritten(
        Response::kStepsFieldNumber,
        ToMatmulResponse(
            shares_executions ? nullptr : &result.executions[step.execution],
            std::move(step), call.counters()));
  }
  writer.AddMessage(Response::kPhasesFieldNumber, ToWire(result.phases));
  if (shares_executions) {
    for (const engine::Execution& execution : result.executions) {
      writer.AddMessage(Response::kExecutionsFieldNumber, ToWire(execution));
    }
    writer.AddPacked(Response::kStepExecutionsFieldNumber, executions);
  }
  return std::move(writer).Finish();
}

}  // namespace

Async<absl::Status> Sequence(Runtime& runtime, Call& call) {
  auto read = ReadKept(call, runtime.limits.max_message_bytes);
  CO_ASSIGN_OR_RETURN(const std::shared_ptr<const Message> kept, co_await read);
  CO_ASSIGN_OR_RETURN(SequenceRequest request,
                      ToSequenceRequest(kept->pieces(), runtime,
                                        call.request_context().identity));
  request.sequence.bytes = kept;
  call.counters().received_bytes += request.operand_bytes;
  {
    Budget& requests = call.connection().requests();
    const int64_t held_bytes = HeldBytes(kept->size());
    requests.Lend(held_bytes);
    absl::StatusOr<Temporaries> rooms = co_await TakeTemporaries(
        runtime, call, std::move(request.rooms), request.device);
    requests.Lend(-held_bytes);
    if (!rooms.ok()) co_return rooms.status();
    request.names.Bind(*rooms, request.sequence);
  }
  // After that on the device, as a stream does: neither waits for the other.
  absl::Status room =
      co_await call.TakeResponse(HeldBytes(request.result_bytes));
  if (!room.ok()) co_return room;

  // With the sequence go its tensors: the device has their room again.
  auto run = CallEngine<engine::SequenceResult>(
      call.loop(), [&](engine::Done<engine::SequenceResult> done) {
        runtime.engine.RunInOrder(std::move(request.sequence), request.device,
                                  call.request_context(), std::move(done));
      });
  absl::StatusOr<engine::SequenceResult> result = co_await run;
  if (!result.ok()) co_return result.status();

  call.Respond(ToMessage(*std::move(result), request.shares_executions, call));
  co_return absl::OkStatus();
}

}  // namespace gemmd::rpc
