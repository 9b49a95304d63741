#include <memory>
#include <utility>
#include <vector>

#include "service/rpc/engine_call.h"
#include "service/rpc/gather.h"
#include "service/rpc/groups.h"
#include "service/rpc/handler.h"
#include "service/rpc/matmul_response.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {

Async<absl::Status> MatmulGrouped(Runtime& runtime, Call& call) {
  auto read = ReadKept(call, runtime.limits.max_message_bytes);
  CO_ASSIGN_OR_RETURN(const std::shared_ptr<const Message> kept, co_await read);
  int64_t result_bytes = 0;
  CO_ASSIGN_OR_RETURN(
      std::vector<MatmulRequest> groups,
      ToGroups(kept->pieces(), Asker(runtime, call.request_context().identity),
               result_bytes));
  for (MatmulRequest& group : groups) {
    group.product.bytes = kept;
    call.counters().received_bytes += group.operand_bytes;
  }
  // Room for the answer comes before the work.
  absl::Status room = co_await call.TakeResponse(HeldBytes(result_bytes));
  if (!room.ok()) co_return room;

  auto multiply = CallEngine<ProductResults>(
      call.loop(), [&](engine::Done<ProductResults> done) {
        MultiplyAll(runtime.engine, std::move(groups), call.request_context(),
                    std::move(done));
      });
  absl::StatusOr<ProductResults> results = co_await multiply;
  if (!results.ok()) co_return results.status();
  WireWriter writer;
  for (engine::ProductResult& result : *results) {
    writer.AddWritten(v1::MatmulGroupedResponse::kGroupsFieldNumber,
                      ToMatmulResponse(std::move(result), call.counters()));
  }
  call.Respond(std::move(writer).Finish());
  co_return absl::OkStatus();
}

}  // namespace gemmd::rpc
