#include <utility>

#include "service/rpc/kserve/infer.h"
#include "service/rpc/kserve/methods.h"

namespace gemmd::rpc::kserve {

Async<absl::Status> ModelInfer(Runtime& runtime, Call& call) {
  auto message = co_await ReadMessage(call, runtime.limits.max_message_bytes);
  if (!message.ok()) co_return message.status();
  if (!message->has_value()) {
    co_return absl::InvalidArgumentError("the request message is missing");
  }
  auto infer = Infer(runtime, call, **message);
  absl::StatusOr<WireWriter> response = co_await infer;
  if (!response.ok()) co_return response.status();
  call.Respond((*std::move(response)).Finish());
  co_return absl::OkStatus();
}

}  // namespace gemmd::rpc::kserve
