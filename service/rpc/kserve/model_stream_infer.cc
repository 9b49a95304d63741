#include <utility>

#include "service/rpc/kserve/infer.h"
#include "service/rpc/kserve/methods.h"
#include "service/rpc/status.h"

namespace gemmd::rpc::kserve {
namespace {

using inference::ModelStreamInferResponse;

// Whether the next request may be read after this error: it was this one's.
bool IsOfRequest(const absl::Status& status) {
  return !absl::IsCancelled(status) && !absl::IsDeadlineExceeded(status) &&
         !absl::IsUnavailable(status);
}

grpc::ByteBuffer ErrorOf(const absl::Status& status, const std::string& id) {
  ModelStreamInferResponse response;
  response.set_error_message(std::string(ToGrpc(status).error_message()));
  response.mutable_infer_response()->set_id(id);
  return Serialize(response);
}

grpc::ByteBuffer AnswerOf(WireWriter response) {
  const grpc::ByteBuffer bytes = std::move(response).Finish();
  std::vector<grpc::Slice> slices;
  WireWriter writer;
  if (bytes.Dump(&slices).ok()) {
    writer.AddBytes(ModelStreamInferResponse::kInferResponseFieldNumber,
                    std::move(slices));
  }
  return std::move(writer).Finish();
}

}  // namespace

Async<absl::Status> ModelStreamInfer(Runtime& runtime, Call& call) {
  while (true) {
    auto message =
        co_await ReadNextRequest(call, runtime.limits.max_message_bytes);
    if (!message.ok()) co_return message.status();
    if (!message->has_value()) co_return absl::OkStatus();
    std::string id;
    auto infer = Infer(runtime, call, **message, &id);
    absl::StatusOr<WireWriter> response = co_await infer;
    ++call.counters().requests;
    if (!response.ok()) ++call.counters().failed;
    if (!response.ok() && !IsOfRequest(response.status())) {
      co_return response.status();
    }
    {
      // Neither is held while the next request is waited for.
      const grpc::ByteBuffer answer = response.ok()
                                          ? AnswerOf(*std::move(response))
                                          : ErrorOf(response.status(), id);
      message->reset();
      call.HoldRequests(0);
      const bool written = co_await call.Write(answer);
      if (!written) co_return absl::CancelledError("the client has gone");
    }
    call.ReturnResponses();
  }
}

}  // namespace gemmd::rpc::kserve
