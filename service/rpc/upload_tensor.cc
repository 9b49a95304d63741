#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/steady_time.h"
#include "service/rpc/convert.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/handler.h"
#include "service/rpc/line_range.h"
#include "service/rpc/methods.h"
#include "service/rpc/parse.h"
#include "service/rpc/receive_matrices.h"
#include "service/rpc/region_part.h"
#include "service/rpc/tensor_info.h"
#include "service/rpc/wire_layout.h"
#include "service/rpc/wire_reader.h"

namespace gemmd::rpc {
namespace {

// Sent from a region at once.
constexpr int64_t kRegionPartBytes = 64 << 20;

// Between two looks at whether the rest of a transfer is overdue.
constexpr absl::Duration kOverdueInterval = absl::Seconds(1);
// Of the name that clients give a transfer.
constexpr size_t kLeastTransferBytes = 16;
constexpr size_t kMostTransferBytes = 64;

// Nothing here keeps the tensor: while the client is silent, it may be deleted
// or expire.
struct Upload {
  std::string handle;
  jit::MatrixLayout layout;  // Of what this stream brings.
  std::shared_ptr<engine::TensorUpload> elements;
  std::unique_ptr<Transfers::Part> part;  // Null: it brings all of them.
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

// Takes the part that `asked` says in the place of all of `upload`.
absl::Status TakePart(Runtime& runtime, const Call& call,
                      const v1::UploadTensorRequest::Part& asked,
                      const std::shared_ptr<engine::Tensor>& tensor,
                      Upload& upload) {
  if (asked.transfer().size() < kLeastTransferBytes ||
      asked.transfer().size() > kMostTransferBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "header.part.transfer has ", asked.transfer().size(),
        " bytes; allowed: ", kLeastTransferBytes, " to ", kMostTransferBytes));
  }
  ASSIGN_OR_RETURN(
      const device::LineRange lines,
      ToLineRange(asked.lines(), upload.layout, "header.part.lines"));
  const Transfers::Name name = {
      .principal = call.principal() == nullptr ? "" : call.principal()->name,
      .handle = upload.handle,
      .id = asked.transfer()};
  ASSIGN_OR_RETURN(upload.part,
                   runtime.transfers.Join(name, lines, jit::SteadyNow(), [&] {
                     return runtime.engine.BeginUpload(
                         tensor, call.request_context().identity);
                   }));
  upload.elements = upload.part->upload();
  upload.layout = device::LayoutOf(upload.layout, {0, lines.count});
  upload.wire = LinesOf(upload.wire, upload.layout);
  return absl::OkStatus();
}

absl::StatusOr<Upload> ReadHeader(Runtime& runtime, Call& call,
                                  const Message& message) {
  v1::UploadTensorRequest request;
  if (message.size() <= kMaxSmallMessageBytes) {
    RETURN_IF_ERROR(
        Parse(Join(message.pieces()), "the first message", request));
  }
  if (!request.has_header()) {
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
    if (header.has_part()) {
      return absl::InvalidArgumentError(
          "header.part is given; allowed beside a region: none, because all "
          "elements are there");
    }
    ASSIGN_OR_RETURN(RegionBytes found,
                     FindRegion(*runtime.regions, identity, header.region(),
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
  if (header.has_part()) {
    RETURN_IF_ERROR(TakePart(runtime, call, header.part(), tensor, upload));
  } else {
    ASSIGN_OR_RETURN(upload.elements,
                     runtime.engine.BeginUpload(tensor, identity));
  }
  call.NoteTensorRoom();
  return upload;
}

// How the transfer ends whose rest other streams bring.
Async<absl::Status> AwaitOthers(Runtime& runtime, Call& call,
                                Transfers::Part& part) {
  const engine::RequestContext context = call.request_context();
  while (true) {
    Transfers::Wait wait(part, call.loop(), kOverdueInterval);
    call.WhenGivenUp([&wait] { wait.GiveUp(); });
    std::optional<absl::Status> end = co_await wait;
    call.WhenGivenUp(nullptr);
    if (end) co_return *end;
    if (!call.ended().ok()) co_return call.ended();
    CO_RETURN_IF_ERROR(context.Check("all of the transfer was there"));
    const bool pressed =
        runtime.crowded() || runtime.engine.tensors().contended();
    part.EndIfOverdue(jit::SteadyNow(),
                      pressed ? runtime.limits.pressed_stall_timeout
                              : runtime.limits.stall_timeout);
  }
}

// All elements, or the part's, are on the device.
Async<absl::Status> Finish(Runtime& runtime, Call& call, Upload& upload) {
  absl::Status finished;
  if (upload.part != nullptr && !upload.part->Land(jit::SteadyNow())) {
    finished = co_await AwaitOthers(runtime, call, *upload.part);
    co_return finished;
  }
  finished = co_await FinishUpload(runtime, call, upload.elements);
  if (upload.part != nullptr) upload.part->Finish(finished);
  co_return finished;
}

Async<absl::Status> Receive(Runtime& runtime, Call& call, Upload& upload) {
  std::deque<IncomingMatrix> matrix;  // One.
  matrix.push_back({IncomingLines("data", upload.layout, upload.wire),
                    upload.elements,
                    upload.part == nullptr ? 0 : upload.part->lines().first});
  const auto read_chunk = [&](const Message& message) -> absl::StatusOr<Chunk> {
    if (upload.part != nullptr) RETURN_IF_ERROR(upload.part->Check());
    ASSIGN_OR_RETURN(Pieces data, FindData(message));
    return Chunk{&matrix[0], std::move(data)};
  };
  MatrixReceiver receiver(runtime, call, runtime.limits.max_message_bytes,
                          matrix, read_chunk);
  absl::Status received = co_await receiver.Receive();
  if (received.ok()) received = co_await Finish(runtime, call, upload);
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
  const int64_t at_once = std::max<int64_t>(1, kRegionPartBytes / pitch);
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
