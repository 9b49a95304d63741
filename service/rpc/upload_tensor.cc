#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "service/rpc/convert.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/handler.h"
#include "service/rpc/methods.h"
#include "service/rpc/tensor_info.h"
#include "service/rpc/wire_layout.h"
#include "service/rpc/wire_reader.h"

namespace gemmd::rpc {
namespace {

// Bytes gathered before a part is sent to the device: long copies run at full
// speed, and the daemon holds little of a large tensor.
constexpr int64_t kPartBytes = 32 << 20;

struct Upload {
  std::shared_ptr<engine::Tensor> tensor;
  WireLayout wire;
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

absl::StatusOr<Upload> ReadHeader(Runtime& runtime, const Message& message) {
  v1::UploadTensorRequest request;
  if (message.size() > 64 << 10 ||
      !request.ParseFromString(Join(message.pieces())) ||
      !request.has_header()) {
    return absl::InvalidArgumentError(
        "header is missing; allowed as first message: a header alone");
  }
  Upload upload;
  ASSIGN_OR_RETURN(upload.tensor,
                   runtime.engine.tensors().Find(request.header().handle()));
  ASSIGN_OR_RETURN(upload.wire,
                   ToWireLayout(request.header().layout(),
                                upload.tensor->layout(), "header.layout"));
  RETURN_IF_ERROR(CheckTight(upload.wire, upload.tensor->layout(), "layout"));
  return upload;
}

absl::Status TooLong(const Upload& upload) {
  return absl::InvalidArgumentError(absl::StrCat(
      "data goes beyond the ", upload.wire.most_bytes, " bytes of the tensor"));
}

// Reads one chunk. False at the end of the stream.
Async<absl::StatusOr<bool>> ReadChunk(Call& call, PieceQueue& queue) {
  grpc::ByteBuffer buffer;
  const bool read = co_await call.Read(buffer);
  if (!read) co_return false;
  Message message(buffer);
  CO_ASSIGN_OR_RETURN(Pieces data, FindData(message));
  queue.Append(std::move(message), std::move(data));
  co_return true;
}

Async<absl::Status> Receive(Runtime& runtime, Call& call,
                            const Upload& upload) {
  const jit::MatrixLayout& layout = upload.tensor->layout();
  const WireLayout& wire = upload.wire;
  const int64_t part_lines =
      std::max<int64_t>(1, kPartBytes / wire.pitch_bytes);
  PieceQueue queue;
  InFlightBytes::Hold hold(runtime.in_flight);
  int64_t line = 0;  // The first one that is not on the device.
  bool ended = false;
  while (line < layout.lines()) {
    // Lines of a part are complete; the tensor's last one may lack padding.
    const int64_t count = std::min(part_lines, layout.lines() - line);
    const bool last = line + count == layout.lines();
    const int64_t most = count * wire.pitch_bytes;
    const int64_t least =
        last ? most - (wire.pitch_bytes - layout.width_bytes()) : most;
    while (!ended && (queue.size() < least || (last && queue.size() <= most))) {
      CO_RETURN_IF_ERROR(runtime.in_flight.Check());
      absl::StatusOr<bool> more = co_await ReadChunk(call, queue);
      if (!more.ok()) co_return more.status();
      ended = !*more;
      hold.Set(queue.size());
    }
    if (last && queue.size() > most) co_return TooLong(upload);
    if (queue.size() < least ||
        (last && queue.size() != least && queue.size() != most)) {
      co_return CheckLength(wire, line * wire.pitch_bytes + queue.size(),
                            "data");
    }
    const int64_t bytes = last ? queue.size() : most;
    const Pieces pieces = queue.Front(bytes);
    auto send = CallEngine<std::monostate>(
        call.loop(), [&](engine::Done<std::monostate> done) {
          runtime.engine.Upload(
              upload.tensor, {absl::MakeConstSpan(pieces), wire.pitch_bytes},
              {line, count}, call.request_context(), std::move(done));
        });
    absl::StatusOr<std::monostate> sent = co_await send;
    if (!sent.ok()) co_return sent.status();
    queue.Drop(bytes);
    hold.Set(queue.size());
    runtime.counters.received_bytes += bytes;
    line += count;
  }
  co_return absl::OkStatus();
}

}  // namespace

Async<absl::Status> UploadTensor(Runtime& runtime, Call& call) {
  absl::StatusOr<Message> first = co_await ReadMessage(call);
  if (!first.ok()) co_return first.status();
  CO_ASSIGN_OR_RETURN(const Upload upload, ReadHeader(runtime, *first));
  absl::Status received = co_await Receive(runtime, call, upload);
  if (!received.ok()) co_return received;
  call.Respond(Serialize(ToWire(*upload.tensor, runtime.engine)));
  co_return absl::OkStatus();
}

}  // namespace gemmd::rpc
