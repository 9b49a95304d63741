#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "service/rpc/convert.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/handler.h"
#include "service/rpc/methods.h"
#include "service/rpc/receive_matrices.h"
#include "service/rpc/region_part.h"
#include "service/rpc/tensor_info.h"
#include "service/rpc/wire_layout.h"
#include "service/rpc/wire_reader.h"

namespace gemmd::rpc {
namespace {

// Sent from a region at once.
constexpr int64_t kPartBytes = 64 << 20;

// Nothing here keeps the tensor: while the client is silent, it may be deleted
// or expire.
struct Upload {
  std::string handle;
  jit::MatrixLayout layout;
  std::shared_ptr<engine::TensorUpload> elements;
  WireLayout wire;
  device::RegionPlace from;  // In no region: they are sent.
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
  const v1::UploadTensorRequest::Header& header = request.header();
  const std::string& identity = call.request_context().identity;
  Upload upload;
  upload.handle = header.handle();
  ASSIGN_OR_RETURN(const auto tensor,
                   runtime.engine.tensors().Find(upload.handle, identity));
  upload.layout = tensor->layout();
  if (header.has_region()) {
    RETURN_IF_ERROR(CheckReadsRegion(upload.layout, "header.region"));
    if (header.has_layout()) {
      return absl::InvalidArgumentError(
          "header.layout is given; allowed beside a region: that of the region "
          "alone");
    }
    ASSIGN_OR_RETURN(RegionBytes found,
                     FindRegion(runtime.regions, identity, header.region(),
                                upload.layout, "header.region"));
    RETURN_IF_ERROR(CheckOnDevice(runtime, *found.place.region,
                                  tensor->identity().device, "header.region"));
    upload.wire = found.wire;
    upload.from = std::move(found.place);
  } else {
    ASSIGN_OR_RETURN(upload.wire, ToWireLayout(header.layout(), upload.layout,
                                               "header.layout"));
  }
  RETURN_IF_ERROR(CheckTight(upload.wire, upload.layout, "layout"));
  ASSIGN_OR_RETURN(upload.elements,
                   runtime.engine.BeginUpload(tensor, identity));
  call.NoteTensorRoom();
  return upload;
}

Async<absl::Status> Receive(Runtime& runtime, Call& call, Upload& upload) {
  std::deque<IncomingMatrix> matrix;  // One.
  matrix.push_back(
      {IncomingLines("data", upload.layout, upload.wire), upload.elements});
  const auto read_chunk = [&](const Message& message) -> absl::StatusOr<Chunk> {
    ASSIGN_OR_RETURN(Pieces data, FindData(message));
    return Chunk{&matrix[0], std::move(data)};
  };
  MatrixReceiver receiver(runtime, call, runtime.limits.max_message_bytes,
                          matrix, read_chunk);
  absl::Status received = co_await receiver.Run();
  co_return received;
}

Async<absl::Status> Copy(Runtime& runtime, Call& call, Upload& upload) {
  auto more = co_await ReadMessage(call);
  if (!more.ok()) co_return more.status();
  if (more->has_value()) {
    co_return absl::InvalidArgumentError(
        "data are given; allowed: none, because the elements are in a region");
  }
  const int64_t pitch = upload.wire.pitch_bytes;
  const int64_t at_once = std::max<int64_t>(1, kPartBytes / pitch);
  device::LineRange lines;
  for (; lines.first < upload.layout.lines(); lines.first += lines.count) {
    lines.count = std::min(at_once, upload.layout.lines() - lines.first);
    const absl::Span<const char> bytes(
        upload.from.bytes() + lines.first * pitch,
        static_cast<size_t>((lines.count - 1) * pitch +
                            upload.layout.width_bytes()));
    auto copy = CallEngine<std::monostate>(
        call.loop(), [&](engine::Done<std::monostate> done) {
          runtime.engine.Upload(upload.elements,
                                {{&bytes, 1}, pitch, upload.from.region}, lines,
                                call.request_context(), std::move(done));
        });
    absl::StatusOr<std::monostate> copied = co_await copy;
    if (!copied.ok()) co_return copied.status();
  }
  absl::Status finished = co_await FinishUpload(runtime, call, upload.elements);
  co_return finished;
}

}  // namespace

Async<absl::Status> UploadTensor(Runtime& runtime, Call& call) {
  auto first = co_await ReadMessage(call);
  if (!first.ok()) co_return first.status();
  if (!first->has_value()) {
    co_return absl::InvalidArgumentError("the request message is missing");
  }
  CO_ASSIGN_OR_RETURN(Upload upload, ReadHeader(runtime, call, **first));
  absl::Status filled;
  if (upload.from.region == nullptr) {
    filled = co_await Receive(runtime, call, upload);
  } else {
    filled = co_await Copy(runtime, call, upload);
  }
  if (!filled.ok()) co_return filled;
  CO_ASSIGN_OR_RETURN(const auto tensor,
                      runtime.engine.tensors().Find(
                          upload.handle, call.request_context().identity));
  call.Respond(Serialize(ToWire(*tensor, runtime.engine)));
  co_return absl::OkStatus();
}

}  // namespace gemmd::rpc
