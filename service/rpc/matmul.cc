#include <memory>
#include <utility>

#include "service/rpc/engine_call.h"
#include "service/rpc/handler.h"
#include "service/rpc/matmul_request.h"
#include "service/rpc/matmul_response.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {

Async<absl::Status> Matmul(Runtime& runtime, Call& call) {
  auto read = ReadKept(call, runtime.limits.max_message_bytes);
  CO_ASSIGN_OR_RETURN(const std::shared_ptr<const Message> kept, co_await read);
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
