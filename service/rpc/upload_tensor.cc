#include <deque>
#include <string>
#include <utility>

#include "service/rpc/convert.h"
#include "service/rpc/handler.h"
#include "service/rpc/methods.h"
#include "service/rpc/receive_matrices.h"
#include "service/rpc/tensor_info.h"
#include "service/rpc/wire_layout.h"
#include "service/rpc/wire_reader.h"

namespace gemmd::rpc {
namespace {

// Nothing here keeps the tensor: while the client is silent, it may be deleted
// or expire.
struct Upload {
  std::string handle;
  std::deque<IncomingMatrix> matrix;  // One.
};

// The bytes of a chunk; empty when the message has none.
absl::StatusOr<Pieces> FindData(const Message& message) {
  Pieces data;
  WireReader reader(message.pieces());
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return data;
    if (!reader.length_delimited()) continue;  // Unknown to us.
    if (reader.number() == v1::UploadTensorRequest::kHeaderFieldNumber) {
      return absl::InvalidArgumentError(
          "header comes again; allowed: once, in the first message");
    }
    if (reader.number() == v1::UploadTensorRequest::kDataFieldNumber) {
      data = reader.value();
    }
  }
}

absl::StatusOr<Upload> ReadHeader(Runtime& runtime, Call& call,
                                  const Message& message) {
  v1::UploadTensorRequest request;
  if (message.size() > kMaxSmallMessageBytes ||
      !request.ParseFromString(Join(message.pieces())) ||
      !request.has_header()) {
    return absl::InvalidArgumentError(
        "header is missing; allowed as first message: a header alone");
  }
  Upload upload;
  upload.handle = request.header().handle();
  ASSIGN_OR_RETURN(const auto tensor,
                   runtime.engine.tensors().Find(
                       upload.handle, call.request_context().identity));
  const jit::MatrixLayout& layout = tensor->layout();
  ASSIGN_OR_RETURN(
      const WireLayout wire,
      ToWireLayout(request.header().layout(), layout, "header.layout"));
  RETURN_IF_ERROR(CheckTight(wire, layout, "layout"));
  ASSIGN_OR_RETURN(auto elements, runtime.engine.BeginUpload(
                                      tensor, call.request_context().identity));
  upload.matrix.push_back(
      {IncomingLines("data", layout, wire), std::move(elements)});
  call.NoteTensorRoom();
  return upload;
}

}  // namespace

Async<absl::Status> UploadTensor(Runtime& runtime, Call& call) {
  auto first = co_await ReadMessage(call);
  if (!first.ok()) co_return first.status();
  if (!first->has_value()) {
    co_return absl::InvalidArgumentError("the request message is missing");
  }
  CO_ASSIGN_OR_RETURN(Upload upload, ReadHeader(runtime, call, **first));
  const auto read_chunk = [&](const Message& message) -> absl::StatusOr<Chunk> {
    ASSIGN_OR_RETURN(Pieces data, FindData(message));
    return Chunk{&upload.matrix[0], std::move(data)};
  };
  MatrixReceiver receiver(runtime, call, runtime.limits.max_message_bytes,
                          upload.matrix, read_chunk);
  absl::Status received = co_await receiver.Run();
  if (!received.ok()) co_return received;
  CO_ASSIGN_OR_RETURN(const auto tensor,
                      runtime.engine.tensors().Find(
                          upload.handle, call.request_context().identity));
  call.Respond(Serialize(ToWire(*tensor, runtime.engine)));
  co_return absl::OkStatus();
}

}  // namespace gemmd::rpc
