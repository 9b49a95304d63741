#include <memory>
#include <utility>

#include "service/rpc/engine_call.h"
#include "service/rpc/handler.h"
#include "service/rpc/matmul_request.h"
#include "service/rpc/matmul_response.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {

Async<absl::Status> Matmul(Runtime& runtime, Call& call) {
  auto message = co_await ReadMessage(call, runtime.limits.max_message_bytes);
  if (!message.ok()) co_return message.status();
  if (!message->has_value()) {
    co_return absl::InvalidArgumentError("the request message is missing");
  }
  // The engine's, too: on a device that hangs it reads on after the answer.
  const auto kept = std::make_shared<const Message>(std::move(**message));
  CO_ASSIGN_OR_RETURN(MatmulFields fields, ReadMatmulFields(kept->pieces()));
  CO_ASSIGN_OR_RETURN(
      MatmulRequest request,
      ToMatmulRequest(std::move(fields),
                      Asker(runtime, call.request_context().identity)));
  request.product.bytes = kept;
  call.counters().received_bytes += request.operand_bytes;
  // Room for the answer comes before the work.
  absl::Status room =
      co_await call.TakeResponse(HeldBytes(request.result_bytes));
  if (!room.ok()) co_return room;

  auto multiply = CallEngine<engine::ProductResult>(
      call.loop(), [&](engine::Done<engine::ProductResult> done) {
        runtime.engine.Multiply(std::move(request.product), request.device,
                                call.request_context(), std::move(done));
      });
  absl::StatusOr<engine::ProductResult> result = co_await multiply;
  if (!result.ok()) co_return result.status();

  call.Respond(ToMatmulResponse(*std::move(result), call.counters()).Finish());
  co_return absl::OkStatus();
}

}  // namespace gemmd::rpc
