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

absl::StatusOr<Download> ToDownload(Runtime& runtime,
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
                   runtime.engine.tensors().Find(request.handle()));
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

}  // namespace

Async<absl::Status> DownloadTensor(Runtime& runtime, Call& call) {
  v1::DownloadTensorRequest request;
  absl::Status status = co_await ReadRequest(call, request);
  if (!status.ok()) co_return status;
  CO_ASSIGN_OR_RETURN(const Download download, ToDownload(runtime, request));
  const jit::MatrixLayout& layout = download.tensor->layout();
  const int64_t pitch_bytes = download.wire.pitch_bytes;
  const int64_t part_lines = std::max<int64_t>(1, kPartBytes / pitch_bytes);
  int64_t version = 0;
  for (int64_t line = 0; line < layout.lines(); line += part_lines) {
    const int64_t count = std::min(part_lines, layout.lines() - line);
    auto fetch = CallEngine<engine::TensorPart>(
        call.loop(), [&](engine::Done<engine::TensorPart> done) {
          runtime.engine.Download(download.tensor, {line, count}, pitch_bytes,
                                  call.request_context(), std::move(done));
        });
    absl::StatusOr<engine::TensorPart> part = co_await fetch;
    if (!part.ok()) co_return part.status();
    if (line == 0) {
      version = part->version;
    } else if (part->version != version) {
      co_return absl::AbortedError(
          "the tensor was overwritten while it was downloaded");
    } else {
      // A part ends without the padding of its last line.
      status = co_await SendZeros(call, pitch_bytes - layout.width_bytes(),
                                  download.chunk_bytes);
      if (!status.ok()) co_return status;
    }
    const grpc::Slice bytes = Wrap(std::move(part->bytes));
    status = co_await Send(call, bytes, download.chunk_bytes);
    if (!status.ok()) co_return status;
    runtime.counters.sent_bytes += bytes.size();
  }
  co_return absl::OkStatus();
}

}  // namespace gemmd::rpc
