#include "service/rpc/send_matrix.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/wire_writer.h"

namespace gemmd::rpc {
namespace {

// Bytes fetched from the device at once; see receive_matrices.cc.
constexpr int64_t kPartBytes = 32 << 20;

// Sends slices as messages of at most `chunk_bytes`.
Async<absl::Status> Send(Call& call, const OutgoingMatrix& matrix,
                         const grpc::Slice& bytes) {
  for (size_t at = 0; at < bytes.size(); at += matrix.chunk_bytes) {
    const size_t end = std::min<size_t>(bytes.size(), at + matrix.chunk_bytes);
    WireWriter writer;
    writer.AddBytes(matrix.field, {bytes.sub(at, end)});
    const grpc::ByteBuffer message = std::move(writer).Finish();
    const bool written = co_await call.Write(message);
    if (!written) co_return absl::CancelledError("the client has gone");
  }
  co_return absl::OkStatus();
}

Async<absl::Status> SendZeros(Call& call, const OutgoingMatrix& matrix,
                              int64_t count) {
  const grpc::Slice zeros(
      std::string(std::min(count, matrix.chunk_bytes), '\0'));
  while (count > 0) {
    const int64_t part = std::min<int64_t>(count, zeros.size());
    absl::Status sent = co_await Send(call, matrix, zeros.sub(0, part));
    if (!sent.ok()) co_return sent;
    count -= part;
  }
  co_return absl::OkStatus();
}

// The part that follows: whole lines, or a piece of one that is longer than a
// part.
device::LineRange NextPart(const OutgoingMatrix& matrix, int64_t part_bytes,
                           int64_t line, int64_t first_byte) {
  const jit::MatrixLayout& layout = matrix.tensor->layout();
  const int64_t width = layout.width_bytes();
  if (width <= part_bytes) {
    const int64_t lines = std::max<int64_t>(1, part_bytes / matrix.pitch_bytes);
    return {line, std::min(lines, layout.lines() - line)};
  }
  return {line, 1, first_byte, std::min(part_bytes, width - first_byte)};
}

}  // namespace

Async<absl::Status> SendMatrix(Runtime& runtime, Call& call,
                               OutgoingMatrix& matrix) {
  const jit::MatrixLayout& layout = matrix.tensor->layout();
  const int64_t pitch_bytes = matrix.pitch_bytes;
  const int64_t width_bytes = layout.width_bytes();
  const int64_t part_bytes =
      std::clamp(call.most_response_bytes() / 4 / device::kLinePartBytes *
                     device::kLinePartBytes,
                 device::kLinePartBytes, kPartBytes);
  absl::Status status;
  int64_t version = 0;
  int64_t line = 0;
  int64_t first_byte = 0;
  while (line < layout.lines()) {
    const device::LineRange lines =
        NextPart(matrix, part_bytes, line, first_byte);
    const int64_t bytes = lines.bytes > 0
                              ? lines.bytes
                              : (lines.count - 1) * pitch_bytes + width_bytes;
    status = co_await call.TakeResponse(bytes);
    if (!status.ok()) co_return status;
    const absl::Time start = absl::Now();
    auto fetch = CallEngine<engine::TensorPart>(
        call.loop(), [&](engine::Done<engine::TensorPart> done) {
          runtime.engine.Download(matrix.tensor, lines, pitch_bytes,
                                  call.request_context(), std::move(done));
        });
    absl::StatusOr<engine::TensorPart> part = co_await fetch;
    if (!part.ok()) co_return part.status();
    matrix.fetch_time += absl::Now() - start;
    if (line == 0 && first_byte == 0) {
      version = part->version;
    } else if (part->version != version) {
      co_return absl::AbortedError(
          "the tensor was overwritten while it was downloaded");
    } else if (first_byte == 0) {
      // A part ends without the padding of its last line.
      status = co_await SendZeros(call, matrix, pitch_bytes - width_bytes);
      if (!status.ok()) co_return status;
    }
    {
      const grpc::Slice slice = Wrap(std::move(part->bytes));
      status = co_await Send(call, matrix, slice);
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
