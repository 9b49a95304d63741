#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/rpc/convert.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/handler.h"
#include "service/rpc/methods.h"
#include "service/rpc/wire_layout.h"

namespace gemmd::rpc {
namespace {

// Bytes fetched from the device at once; see upload_tensor.cc.
constexpr int64_t kPartBytes = 32 << 20;
constexpr int64_t kDefaultChunkBytes = 1 << 20;
constexpr int64_t kMaxChunkBytes = 16 << 20;

struct Download {
  std::shared_ptr<engine::Tensor> tensor;
  WireLayout wire;
  int64_t chunk_bytes = 0;
};

absl::StatusOr<Download> ToDownload(Runtime& runtime, const Call& call,
                                    const v1::DownloadTensorRequest& request) {
  Download download;
  if (request.chunk_bytes() < 0 || request.chunk_bytes() > kMaxChunkBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk_bytes is ", request.chunk_bytes(),
                     "; allowed: 0 to ", kMaxChunkBytes));
  }
  download.chunk_bytes =
      request.chunk_bytes() == 0 ? kDefaultChunkBytes : request.chunk_bytes();
  ASSIGN_OR_RETURN(download.tensor,
                   runtime.engine.tensors().Find(
                       request.handle(), call.request_context().identity));
  ASSIGN_OR_RETURN(
      download.wire,
      ToWireLayout(request.layout(), download.tensor->layout(), "layout"));
  RETURN_IF_ERROR(
      CheckTight(download.wire, download.tensor->layout(), "layout"));
  return download;
}

// Sends slices as messages of at most `chunk_bytes`.
Async<absl::Status> Send(Call& call, const grpc::Slice& bytes,
                         int64_t chunk_bytes) {
  for (size_t at = 0; at < bytes.size(); at += chunk_bytes) {
    const size_t end = std::min<size_t>(bytes.size(), at + chunk_bytes);
    WireWriter writer;
    writer.AddBytes(v1::DownloadTensorResponse::kDataFieldNumber,
                    {bytes.sub(at, end)});
    const grpc::ByteBuffer message = std::move(writer).Finish();
    const bool written = co_await call.Write(message);
    if (!written) co_return absl::CancelledError("the client has gone");
  }
  co_return absl::OkStatus();
}

Async<absl::Status> SendZeros(Call& call, int64_t count, int64_t chunk_bytes) {
  const grpc::Slice zeros(std::string(std::min(count, chunk_bytes), '\0'));
  while (count > 0) {
    const int64_t part = std::min<int64_t>(count, zeros.size());
    absl::Status sent = co_await Send(call, zeros.sub(0, part), chunk_bytes);
    if (!sent.ok()) co_return sent;
    count -= part;
  }
  co_return absl::OkStatus();
}

// The part that follows: whole lines, or a piece of one that is longer than a
// part.
device::LineRange NextPart(const Download& download, int64_t part_bytes,
                           int64_t line, int64_t first_byte) {
  const jit::MatrixLayout& layout = download.tensor->layout();
  const int64_t width = layout.width_bytes();
  if (width <= part_bytes) {
    const int64_t lines =
        std::max<int64_t>(1, part_bytes / download.wire.pitch_bytes);
    return {line, std::min(lines, layout.lines() - line)};
  }
  return {line, 1, first_byte, std::min(part_bytes, width - first_byte)};
}

}  // namespace

Async<absl::Status> DownloadTensor(Runtime& runtime, Call& call) {
  v1::DownloadTensorRequest request;
  absl::Status status = co_await ReadRequest(call, request);
  if (!status.ok()) co_return status;
  CO_ASSIGN_OR_RETURN(const Download download,
                      ToDownload(runtime, call, request));
  const jit::MatrixLayout& layout = download.tensor->layout();
  const int64_t pitch_bytes = download.wire.pitch_bytes;
  const int64_t width_bytes = layout.width_bytes();
  const int64_t part_bytes =
      std::clamp(runtime.limits.max_in_flight_bytes / 4 /
                     device::kLinePartBytes * device::kLinePartBytes,
                 device::kLinePartBytes, kPartBytes);
  int64_t version = 0;
  int64_t line = 0;
  int64_t first_byte = 0;
  while (line < layout.lines()) {
    const device::LineRange lines =
        NextPart(download, part_bytes, line, first_byte);
    const int64_t bytes = lines.bytes > 0
                              ? lines.bytes
                              : (lines.count - 1) * pitch_bytes + width_bytes;
    status = co_await call.TakeResponse(bytes);
    if (!status.ok()) co_return status;
    auto fetch = CallEngine<engine::TensorPart>(
        call.loop(), [&](engine::Done<engine::TensorPart> done) {
          runtime.engine.Download(download.tensor, lines, pitch_bytes,
                                  call.request_context(), std::move(done));
        });
    absl::StatusOr<engine::TensorPart> part = co_await fetch;
    if (!part.ok()) co_return part.status();
    if (line == 0 && first_byte == 0) {
      version = part->version;
    } else if (part->version != version) {
      co_return absl::AbortedError(
          "the tensor was overwritten while it was downloaded");
    } else if (first_byte == 0) {
      // A part ends without the padding of its last line.
      status = co_await SendZeros(call, pitch_bytes - width_bytes,
                                  download.chunk_bytes);
      if (!status.ok()) co_return status;
    }
    {
      const grpc::Slice slice = Wrap(std::move(part->bytes));
      status = co_await Send(call, slice, download.chunk_bytes);
      if (!status.ok()) co_return status;
    }
    call.ReturnResponse(bytes);
    call.counters().sent_bytes += bytes;
    first_byte += lines.bytes;
    if (lines.bytes == 0 || first_byte == width_bytes) {
      line += lines.count;
      first_byte = 0;
    }
  }
  co_return absl::OkStatus();
}

}  // namespace gemmd::rpc
