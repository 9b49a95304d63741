#include "service/rpc/send_matrix.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "jit/base/steady_time.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/limits.h"
#include "service/rpc/wire_writer.h"

namespace gemmd::rpc {
namespace {

// Padding: there may be any amount of it, for which nobody has made room.
constexpr int64_t kZeroBytes = 64 << 10;
constexpr char kZeros[kZeroBytes] = {};

// Sends the joined slices as one message, with `version`, if any.
Async<absl::Status> SendMessage(Call& call, const OutgoingMatrix& matrix,
                                std::vector<grpc::Slice> slices,
                                std::optional<int64_t> version = std::nullopt) {
  WireWriter writer;
  if (version) writer.AddNumber(matrix.version_field, *version);
  writer.AddBytes(matrix.field, std::move(slices));
  const grpc::ByteBuffer message = std::move(writer).Finish();
  const bool written = co_await call.Write(message);
  if (!written) co_return absl::CancelledError("the client has gone");
  co_return absl::OkStatus();
}

// Sends a slice as messages of at most `chunk_bytes`, the first one with
// `version`, if any.
Async<absl::Status> Send(Call& call, const OutgoingMatrix& matrix,
                         const grpc::Slice& bytes,
                         std::optional<int64_t> version = std::nullopt) {
  for (size_t at = 0; at < bytes.size(); at += matrix.chunk_bytes) {
    const size_t end = std::min<size_t>(bytes.size(), at + matrix.chunk_bytes);
    std::vector<grpc::Slice> part(1, bytes.sub(at, end));
    absl::Status sent = co_await SendMessage(call, matrix, std::move(part),
                                             std::exchange(version, {}));
    if (!sent.ok()) co_return sent;
  }
  co_return absl::OkStatus();
}

Async<absl::Status> SendZeros(Call& call, const OutgoingMatrix& matrix,
                              int64_t count) {
  while (count > 0) {
    int64_t left = std::min(count, matrix.chunk_bytes);
    count -= left;
    std::vector<grpc::Slice> slices;
    while (left > 0) {
      slices.emplace_back(kZeros, std::min(left, kZeroBytes),
                          grpc::Slice::STATIC_SLICE);
      left -= static_cast<int64_t>(slices.back().size());
    }
    absl::Status sent = co_await SendMessage(call, matrix, std::move(slices));
    if (!sent.ok()) co_return sent;
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
    const int64_t end = matrix.lines.first + matrix.lines.count;
    return {line, std::min(lines, end - line)};
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
  std::optional<int64_t> version;  // Of the first part, and so of all.
  int64_t line = matrix.lines.first;
  int64_t first_byte = 0;
  while (line < matrix.lines.first + matrix.lines.count) {
    const device::LineRange lines =
        NextPart(matrix, part_bytes, line, first_byte);
    const int64_t bytes = lines.bytes > 0
                              ? lines.bytes
                              : (lines.count - 1) * pitch_bytes + width_bytes;
    status = co_await call.TakeResponse(bytes);
    if (!status.ok()) co_return status;
    const absl::Time start = jit::SteadyNow();
    auto fetch = CallEngine<engine::TensorPart>(
        call.loop(), [&](engine::Done<engine::TensorPart> done) {
          runtime.engine.Download(matrix.tensor, lines, pitch_bytes,
                                  call.request_context(), std::move(done));
        });
    absl::StatusOr<engine::TensorPart> part = co_await fetch;
    if (!part.ok()) co_return part.status();
    matrix.fetch_time += jit::SteadyNow() - start;
    const bool first = !version;
    if (first) {
      version = part->version;
      if (matrix.version.value_or(*version) != *version) {
        co_return absl::AbortedError(
            absl::StrCat("the tensor has version ", *version, ", and ",
                         *matrix.version, " is asked for: it was written"));
      }
    } else if (part->version != *version) {
      co_return absl::AbortedError(
          "the tensor was overwritten while it was downloaded");
    } else if (first_byte == 0) {
      // A part ends without the padding of its last line.
      status = co_await SendZeros(call, matrix, pitch_bytes - width_bytes);
      if (!status.ok()) co_return status;
    }
    {
      const grpc::Slice slice = Wrap(std::move(part->bytes));
      const bool told = first && matrix.version_field != 0;
      status =
          co_await Send(call, matrix, slice, told ? version : std::nullopt);
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
