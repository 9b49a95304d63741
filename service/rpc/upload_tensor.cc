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

// Nothing here keeps the tensor: while the client is silent, it may be deleted
// or expire.
struct Upload {
  std::string handle;
  jit::MatrixLayout layout;
  std::shared_ptr<engine::TensorUpload> elements;
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

absl::StatusOr<Upload> ReadHeader(Runtime& runtime, Call& call,
                                  const Message& message) {
  v1::UploadTensorRequest request;
  if (message.size() > 64 << 10 ||
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
  upload.layout = tensor->layout();
  ASSIGN_OR_RETURN(upload.wire, ToWireLayout(request.header().layout(),
                                             upload.layout, "header.layout"));
  RETURN_IF_ERROR(CheckTight(upload.wire, upload.layout, "layout"));
  ASSIGN_OR_RETURN(
      upload.elements,
      runtime.engine.BeginUpload(tensor, call.request_context().identity));
  call.NoteTensorRoom();
  return upload;
}

// The next bytes of the stream that can go to the device.
struct Part {
  device::LineRange lines;  // None: padding.
  int64_t bytes = 0;        // On the wire. 0: more must come first.
};

// `at` bytes have gone already, `available` have come since.
Part NextPart(const Upload& upload, int64_t at, int64_t available) {
  const int64_t pitch = upload.wire.pitch_bytes;
  const int64_t width = upload.layout.width_bytes();
  const int64_t line = at / pitch;
  const int64_t first_byte = at % pitch;
  if (line == upload.layout.lines() || available == 0) return {};
  if (first_byte >= width) {
    return {.lines = {}, .bytes = std::min(available, pitch - first_byte)};
  }
  if (first_byte == 0 && available >= width) {
    const int64_t count =
        std::min(upload.layout.lines() - line, (available - width) / pitch + 1);
    return {.lines = {line, count}, .bytes = (count - 1) * pitch + width};
  }
  int64_t bytes = width - first_byte;
  if (available < bytes) {
    // A long line goes in pieces: little is left to be held.
    if (available <= kCallAllowanceBytes) return {};
    bytes = available / device::kLinePartBytes * device::kLinePartBytes;
  }
  return {.lines = {line, 1, first_byte, bytes}, .bytes = bytes};
}

absl::Status CheckSize(const Upload& upload, int64_t bytes, bool ended) {
  if (bytes > upload.wire.most_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("data goes beyond the ",
                                                   upload.wire.most_bytes,
                                                   " bytes of the tensor"));
  }
  return ended ? CheckLength(upload.wire, bytes, "data") : absl::OkStatus();
}

// Reads messages until there is enough for a part, or no room for more. What
// has come already is not held while there is no room for the next message.
// True at the end of the stream.
Async<absl::StatusOr<bool>> Gather(Runtime& runtime, Call& call,
                                   PieceQueue& queue) {
  const int64_t limit = runtime.limits.max_message_bytes;
  const int64_t announced = std::min(HeldBytes(call.AnnouncedBytes()), limit);
  while (queue.size() < kPartBytes) {
    if (queue.size() <= kCallAllowanceBytes) {
      absl::Status taken = co_await call.TakeRequest(announced);
      if (!taken.ok()) co_return taken;
    } else if (!call.TryTakeRequest(announced)) {
      break;
    }
    auto message = co_await call.Read(limit, announced);
    if (!message.ok()) co_return message.status();
    if (!message->has_value()) co_return true;
    CO_ASSIGN_OR_RETURN(Pieces data, FindData(**message));
    queue.Append(**std::move(message), std::move(data));
    call.HoldRequests(queue.held_bytes());
    if (call.connection().requests().contended()) break;
  }
  co_return false;
}

Async<absl::Status> SendPart(Runtime& runtime, Call& call, const Upload& upload,
                             const PieceQueue& queue, Part part) {
  const Pieces pieces = queue.Front(part.bytes);
  auto send = CallEngine<std::monostate>(
      call.loop(), [&](engine::Done<std::monostate> done) {
        runtime.engine.Upload(
            upload.elements,
            {absl::MakeConstSpan(pieces), upload.wire.pitch_bytes}, part.lines,
            call.request_context(), std::move(done));
      });
  absl::StatusOr<std::monostate> sent = co_await send;
  co_return sent.status();
}

Async<absl::Status> Receive(Runtime& runtime, Call& call,
                            const Upload& upload) {
  PieceQueue queue;
  int64_t at = 0;
  bool ended = false;
  while (!ended) {
    absl::StatusOr<bool> gathered = co_await Gather(runtime, call, queue);
    if (!gathered.ok()) co_return gathered.status();
    ended = *gathered;
    CO_RETURN_IF_ERROR(CheckSize(upload, at + queue.size(), ended));
    for (Part part = NextPart(upload, at, queue.size()); part.bytes > 0;
         part = NextPart(upload, at, queue.size())) {
      if (part.lines.count > 0) {
        absl::Status sent =
            co_await SendPart(runtime, call, upload, queue, part);
        if (!sent.ok()) co_return sent;
      }
      queue.Drop(part.bytes);
      at += part.bytes;
      call.counters().received_bytes += part.bytes;
    }
    queue.Detach();
    call.HoldRequests(queue.held_bytes());
  }
  co_return absl::OkStatus();
}

}  // namespace

Async<absl::Status> UploadTensor(Runtime& runtime, Call& call) {
  auto first = co_await ReadMessage(call);
  if (!first.ok()) co_return first.status();
  if (!first->has_value()) {
    co_return absl::InvalidArgumentError("the request message is missing");
  }
  CO_ASSIGN_OR_RETURN(const Upload upload, ReadHeader(runtime, call, **first));
  absl::Status received = co_await Receive(runtime, call, upload);
  if (!received.ok()) co_return received;
  auto finish = CallEngine<std::monostate>(
      call.loop(), [&](engine::Done<std::monostate> done) {
        runtime.engine.FinishUpload(upload.elements, call.request_context(),
                                    std::move(done));
      });
  absl::StatusOr<std::monostate> finished = co_await finish;
  if (!finished.ok()) co_return finished.status();
  CO_ASSIGN_OR_RETURN(const auto tensor,
                      runtime.engine.tensors().Find(
                          upload.handle, call.request_context().identity));
  call.Respond(Serialize(ToWire(*tensor, runtime.engine)));
  co_return absl::OkStatus();
}

}  // namespace gemmd::rpc
