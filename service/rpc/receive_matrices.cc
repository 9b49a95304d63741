#include "service/rpc/receive_matrices.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/steady_time.h"
#include "service/rpc/limits.h"

namespace gemmd::rpc {
namespace {

// Bytes that arrive while a part is on its way to the device; they are the next
// one. The daemon holds little of a large matrix.
constexpr int64_t kMostPartBytes = 32 << 20;

}  // namespace

Async<absl::Status> FinishUpload(Runtime& runtime, Call& call,
                                 std::shared_ptr<engine::TensorUpload> upload) {
  auto finish = CallEngine<std::monostate>(
      call.loop(), [&](engine::Done<std::monostate> done) {
        runtime.engine.FinishUpload(upload, call.request_context(),
                                    std::move(done));
      });
  absl::StatusOr<std::monostate> finished = co_await finish;
  co_return finished.status();
}

Async<absl::Status> MatrixReceiver::Receive() {
  absl::Status received = co_await ReceiveAll();
  // Whatever went wrong, the device reads what is on its way to it.
  absl::Status landed = co_await Land();
  co_return received.ok() ? landed : received;
}

Async<absl::Status> MatrixReceiver::Run() {
  absl::Status received = co_await Receive();
  if (!received.ok()) co_return received;
  for (IncomingMatrix& matrix : matrices_) {
    absl::Status finished =
        co_await FinishUpload(runtime_, call_, matrix.upload);
    if (!finished.ok()) co_return finished;
  }
  co_return absl::OkStatus();
}

Async<absl::Status> MatrixReceiver::ReceiveAll() {
  bool ended = false;
  while (!ended) {
    absl::StatusOr<bool> gathered = co_await Gather();
    if (!gathered.ok()) co_return gathered.status();
    ended = *gathered;
    for (IncomingMatrix& matrix : matrices_) {
      if (ended) CO_RETURN_IF_ERROR(matrix.lines.CheckComplete());
      // To the last one, once nothing comes any more.
      do {
        absl::Status sent = co_await Send(matrix);
        if (!sent.ok()) co_return sent;
      } while (ended && matrix.lines.size() > 0);
    }
  }
  co_return absl::OkStatus();
}

// Reads messages until there is enough for a part, or no room for more. What
// has come already is not held while there is no room for the next message.
// True at the end of the stream.
Async<absl::StatusOr<bool>> MatrixReceiver::Gather() {
  const int64_t announced =
      std::min(HeldBytes(call_.metadata().announced_bytes()), limit_);
  while (size() - flying_bytes() <
         (flying_bytes() == 0 ? kPartBytes : kMostPartBytes)) {
    if (flying_bytes() == 0 && size() <= kCallAllowanceBytes) {
      DetachAll();
      call_.HoldRequests(held_bytes());
      absl::Status taken = co_await call_.TakeRequest(announced);
      if (!taken.ok()) co_return taken;
    } else if (!call_.TryTakeRequest(announced)) {
      break;
    }
    auto message = co_await call_.Read(limit_, announced);
    if (!message.ok()) co_return message.status();
    if (!message->has_value()) co_return true;
    CO_ASSIGN_OR_RETURN(Chunk chunk, read_chunk_(**message));
    CO_RETURN_IF_ERROR(Count(SizeOf(chunk.data)));
    if (chunk.to != nullptr) {
      CO_RETURN_IF_ERROR(
          chunk.to->lines.Append(**std::move(message), std::move(chunk.data)));
    }
    call_.HoldRequests(held_bytes());
    if (call_.connection().requests().contended()) break;
  }
  co_return false;
}

absl::Status MatrixReceiver::Count(int64_t bytes) {
  bytes_ += bytes;
  if (++chunks_ <= kMostSmallChunks + bytes_ / kLeastChunkBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data come in ", chunks_, " messages, with ", bytes_,
                   " bytes until here; allowed: ", kMostSmallChunks,
                   ", and one for each ", kLeastChunkBytes, " bytes"));
}

// Sends what can go of one matrix. The last part is on its way afterwards.
Async<absl::Status> MatrixReceiver::Send(IncomingMatrix& matrix) {
  while (matrix.lines.size() > 0) {
    absl::Status landed = co_await Land();
    if (!landed.ok()) co_return landed;
    const IncomingLines::Part part = matrix.lines.Next();
    if (part.bytes == 0) break;
    if (part.lines.count == 0) {
      matrix.lines.Drop(part.bytes);
      call_.counters().received_bytes += part.bytes;
      continue;
    }
    Launch(matrix, part);
    if (matrix.lines.Next(part.bytes).lines.count == 0) break;
  }
  call_.HoldRequests(held_bytes());
  co_return absl::OkStatus();
}

void MatrixReceiver::Launch(IncomingMatrix& matrix,
                            const IncomingLines::Part& part) {
  Flight& flight = flight_.emplace(call_.loop(), [this] { NoteLanded(); });
  flight.matrix = &matrix;
  flight.bytes = part.bytes;
  flight.pieces = matrix.lines.Front(part.bytes);
  flight.since = jit::SteadyNow();
  device::LineRange lines = part.lines;
  lines.first += matrix.first_line;
  runtime_.engine.Upload(
      matrix.upload,
      {absl::MakeConstSpan(flight.pieces), matrix.lines.pitch_bytes()}, lines,
      call_.request_context(), flight.answer.Done());
}

// At once, and not when the next message has come: what has gone to the device
// is held no longer, however long the client is silent.
void MatrixReceiver::NoteLanded() {
  upload_time_ += jit::SteadyNow() - flight_->since;
  const int64_t held = held_bytes();
  flight_->matrix->lines.Drop(flight_->bytes);
  call_.counters().received_bytes += flight_->bytes;
  flight_->bytes = 0;
  // A part of a line is all that is left, or not much more.
  if (size() <= kCallAllowanceBytes) DetachAll();
  // A read that goes on holds bytes of its own.
  call_.ReturnRequest(held - held_bytes());
}

Async<absl::Status> MatrixReceiver::Land() {
  if (!flight_) co_return absl::OkStatus();
  // Named: of what operator-> gives, GCC 12 awaits nothing in a build with the
  // undefined sanitizer.
  EngineAnswer<std::monostate>& answer = flight_->answer;
  absl::StatusOr<std::monostate> landed = co_await answer;
  flight_.reset();
  co_return landed.status();
}

void MatrixReceiver::DetachAll() {
  for (IncomingMatrix& matrix : matrices_) matrix.lines.Detach();
}

// Bytes that are here, on their way or not.
int64_t MatrixReceiver::size() const {
  int64_t sum = 0;
  for (const IncomingMatrix& matrix : matrices_) sum += matrix.lines.size();
  return sum;
}

// What they take of the budget. The rest of a line takes none: otherwise a call
// that holds it could wait for ever for the largest message that it may have.
int64_t MatrixReceiver::held_bytes() const {
  int64_t held = 0;
  for (const IncomingMatrix& matrix : matrices_) {
    held += matrix.lines.held_bytes();
  }
  return HeldBytes(held);
}

}  // namespace gemmd::rpc
