// What answers one method. Handlers are coroutines on the call's loop: they
// read, validate, ask the engine, and return the status that ends the call.
#ifndef GEMMD_SERVICE_RPC_HANDLER_H_
#define GEMMD_SERVICE_RPC_HANDLER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/identity/principal.h"
#include "service/rpc/async.h"
#include "service/rpc/call.h"
#include "service/rpc/message.h"
#include "service/rpc/runtime.h"
#include "service/rpc/wire_writer.h"

namespace gemmd::rpc {

using Handler = Async<absl::Status> (*)(Runtime& runtime, Call& call);

struct Method {
  Handler handler;
  identity::Access access;
};

// "/gemmd.v1.MatmulService/Matmul" and all others; null when there is none.
const Method* FindMethod(absl::string_view name);

// "/gemmd.v1.MatmulService/Matmul" and all others.
std::vector<std::string> MethodNames();

// "gemmd.v1.MatmulService" and all others, sorted.
std::vector<std::string> ServiceNames();

// The next message, of at most `limit` bytes; nothing at the end of the
// stream. Waits for room when the client announces a large one.
Async<absl::StatusOr<std::optional<Message>>> ReadMessage(
    Call& call, int64_t limit = kMaxSmallMessageBytes);
// The one message of a call, for the engine too, which on a device that hangs
// reads on after the answer. INVALID_ARGUMENT when there is none.
Async<absl::StatusOr<std::shared_ptr<const Message>>> ReadKept(Call& call,
                                                               int64_t limit);
// The next request of a stream of them, as ReadMessage. UNAVAILABLE once the
// daemon drains and no part of one is here.
Async<absl::StatusOr<std::optional<Message>>> ReadNextRequest(
    Call& call, int64_t limit = kMaxSmallMessageBytes);
// Whether a message may be parsed: of a few bytes that takes milliseconds where
// it holds many others.
using MessageCheck = absl::Status (*)(absl::Span<const Piece> message);
// Parses a small message into `request`, if `check` allows it. INVALID_ARGUMENT
// when there is none.
Async<absl::Status> ReadRequest(Call& call, google::protobuf::Message& request,
                                MessageCheck check = nullptr);

// Sends a message that is there already, once the budget of answers has room
// for it.
Async<absl::Status> RespondWithin(Call& call, grpc::ByteBuffer message);

// A handler made of `Method`: one protobuf message in, one out, or its bytes.
template <typename Request, typename Response,
          Async<absl::StatusOr<Response>> (*Method)(Runtime&, Call&,
                                                    const Request&),
          MessageCheck check = nullptr>
Async<absl::Status> Unary(Runtime& runtime, Call& call) {
  Request request;
  const absl::Status read = co_await ReadRequest(call, request, check);
  if (!read.ok()) co_return read;
  absl::StatusOr<Response> response = co_await Method(runtime, call, request);
  if (!response.ok()) co_return response.status();
  const absl::Status sent = co_await RespondWithin(call, Serialize(*response));
  co_return sent;
}

// `handler`, which multiplies: its calls are counted.
template <Handler handler>
Async<absl::Status> Counted(Runtime& runtime, Call& call) {
  const absl::Status status = co_await handler(runtime, call);
  ++call.counters().requests;
  if (!status.ok() && !call.answered_before()) ++call.counters().failed;
  co_return status;
}

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_HANDLER_H_
