// Matrices that arrive in the chunks of a stream go to their device: while one
// part of them is on its way there, the next one arrives.
#ifndef GEMMD_SERVICE_RPC_RECEIVE_MATRICES_H_
#define GEMMD_SERVICE_RPC_RECEIVE_MATRICES_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/rpc/async.h"
#include "service/rpc/call.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/incoming_lines.h"
#include "service/rpc/runtime.h"

namespace gemmd::rpc {

struct IncomingMatrix {
  IncomingLines lines;
  std::shared_ptr<engine::TensorUpload> upload;
  int64_t first_line = 0;  // Of the tensor's, which is the first of `lines`.
};

// What one message of a stream brings, and to which matrix. Null: to none, and
// nobody reads it.
struct Chunk {
  IncomingMatrix* to = nullptr;
  Pieces data;
};

// Puts what was uploaded in the place of the tensor's old elements.
Async<absl::Status> FinishUpload(Runtime& runtime, Call& call,
                                 std::shared_ptr<engine::TensorUpload> upload);

// Used once, by a coroutine of the call that keeps it until it is done. Holds
// at most two parts of 32 MiB and a message, and less where the budget of
// requests is short.
class MatrixReceiver {
 public:
  // INVALID_ARGUMENT for a message that does not belong where it comes.
  using ReadChunk = absl::FunctionRef<absl::StatusOr<Chunk>(const Message&)>;

  // Messages have at most `limit` bytes. All outlive the receiver.
  MatrixReceiver(Runtime& runtime, Call& call, int64_t limit,
                 std::deque<IncomingMatrix>& matrices, ReadChunk read_chunk)
      : runtime_(runtime),
        call_(call),
        limit_(limit),
        matrices_(matrices),
        read_chunk_(read_chunk) {}

  // Reads to the end of the stream. OK when all bytes of all matrices have come
  // and are on their device.
  Async<absl::Status> Receive();
  // That, and their tensors have them.
  Async<absl::Status> Run();

  // That parts were with the engine, one after the other.
  absl::Duration upload_time() const { return upload_time_; }

 private:
  // A part on its way to the device, which reads it where it lies.
  struct Flight {
    Flight(EventLoop& loop, std::function<void()> landed)
        : answer(loop, std::move(landed)) {}

    IncomingMatrix* matrix = nullptr;
    int64_t bytes = 0;  // 0: it has landed.
    Pieces pieces;
    absl::Time since;
    EngineAnswer<std::monostate> answer;
  };

  Async<absl::Status> ReceiveAll();
  Async<absl::StatusOr<bool>> Gather();
  // Counts a message, and `bytes` of a matrix that it brings. INVALID_ARGUMENT
  // where they come in too many messages.
  absl::Status Count(int64_t bytes);
  Async<absl::Status> Send(IncomingMatrix& matrix);
  void Launch(IncomingMatrix& matrix, const IncomingLines::Part& part);
  void NoteLanded();
  Async<absl::Status> Land();
  int64_t flying_bytes() const { return flight_ ? flight_->bytes : 0; }
  void DetachAll();
  int64_t size() const;
  int64_t held_bytes() const;

  Runtime& runtime_;
  Call& call_;
  const int64_t limit_;
  std::deque<IncomingMatrix>& matrices_;
  const ReadChunk read_chunk_;
  int64_t chunks_ = 0;  // That have come,
  int64_t bytes_ = 0;   // and what was in them.
  std::optional<Flight> flight_;
  absl::Duration upload_time_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_RECEIVE_MATRICES_H_
