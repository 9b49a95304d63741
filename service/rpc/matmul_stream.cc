// A product whose operands and results travel in chunks.
//
// Operands go into tensors that the call alone knows, the product is one of
// tensors, and its results leave from tensors. So streams have the quota, the
// order of use, the lanes and the copies that tensors have, on every device,
// and a stream that ends anywhere gives all back by letting go of them.
#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "service/rpc/chunk_reader.h"
#include "service/rpc/convert.h"
#include "service/rpc/early_preparation.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/handler.h"
#include "service/rpc/matmul_request.h"
#include "service/rpc/methods.h"
#include "service/rpc/parse.h"
#include "service/rpc/receive_matrices.h"
#include "service/rpc/send_matrix.h"
#include "service/rpc/take_temporaries.h"

namespace gemmd::rpc {
namespace {

constexpr int64_t kMaxChunkBytes = 4 << 20;
// Beside the bytes of a chunk: tags, lengths and the operand.
constexpr int64_t kChunkPrefixBytes = 64;
// Of an answer.
constexpr int64_t kAnswerChunkBytes = 2 << 20;

absl::StatusOr<MatmulRequest> ReadHeader(Runtime& runtime, const Call& call,
                                         const Message& message) {
  v1::MatmulStreamRequest request;
  RETURN_IF_ERROR(Parse(Join(message.pieces()), "the first message", request));
  if (!request.has_header()) {
    return absl::InvalidArgumentError(
        "header is missing; allowed as first message: a header alone");
  }
  MatmulFields fields;
  fields.header = std::move(*request.mutable_header());
  return ToMatmulRequest(std::move(fields),
                         Asker(runtime, call.request_context().identity),
                         Transport::kStream);
}

// A stream that has room on the device.
struct Stream {
  MatmulRequest request;
  std::deque<IncomingMatrix> incoming;  // One for each that is awaited.
  std::vector<OutgoingMatrix> outgoing;
  bool has_lasting_result = false;  // One that does not leave.
};

// A result, and its field in the answer.
struct ReturnedResult {
  const char* name;
  engine::Destination engine::Product::*to;
  uint32_t field;
};
constexpr ReturnedResult kReturned[] = {
    {"d", &engine::Product::d, v1::MatmulStreamResponse::kDataFieldNumber},
    {"auxiliary", &engine::Product::auxiliary,
     v1::MatmulStreamResponse::kAuxiliaryFieldNumber}};

// What is to be on the device: the operands that are awaited, then the results
// that are returned.
absl::StatusOr<std::vector<jit::MatrixLayout>> Layouts(
    Runtime& runtime, const MatmulRequest& request) {
  std::vector<jit::MatrixLayout> layouts;
  for (const AwaitedOperand& operand : request.awaited) {
    RETURN_IF_ERROR(CheckTensorBytes(runtime, operand.layout, operand.name));
    layouts.push_back(operand.layout);
  }
  const jit::MatrixLayout d = request.product.problem.d();
  for (const ReturnedResult& result : kReturned) {
    if (!(request.product.*result.to).is_returned) continue;
    RETURN_IF_ERROR(CheckTensorBytes(runtime, d, result.name));
    layouts.push_back(d);
  }
  return layouts;
}

// `temporaries` are of Layouts.
absl::StatusOr<Stream> ToStream(Runtime& runtime, Call& call,
                                MatmulRequest request,
                                const Temporaries& temporaries) {
  Stream stream;
  engine::Product& product = request.product;
  auto next = temporaries.begin();
  for (const AwaitedOperand& operand : request.awaited) {
    ASSIGN_OR_RETURN(
        auto elements,
        runtime.engine.BeginUpload(*next, call.request_context().identity));
    elements->name = operand.name;
    stream.incoming.push_back(
        {IncomingLines(operand.name, operand.layout, operand.wire),
         std::move(elements)});
    (product.*operand.input).tensor = *next++;
    (product.*operand.input).is_streamed = true;
  }
  const int64_t chunk_bytes = std::min(
      kAnswerChunkBytes, runtime.limits.max_message_bytes - kChunkPrefixBytes);
  for (const ReturnedResult& result : kReturned) {
    engine::Destination& to = product.*result.to;
    stream.has_lasting_result |=
        to.tensor != nullptr || to.place.region != nullptr;
    if (!to.is_returned) continue;
    to.tensor = *next++;
    stream.outgoing.push_back({.tensor = to.tensor,
                               .lines = {0, to.tensor->layout().lines()},
                               .pitch_bytes = to.pitch_bytes,
                               .field = result.field,
                               .chunk_bytes = chunk_bytes});
  }
  stream.request = std::move(request);
  return stream;
}

}  // namespace

Async<absl::Status> MatmulStream(Runtime& runtime, Call& call) {
  auto first = co_await ReadMessage(call);
  if (!first.ok()) co_return first.status();
  if (!first->has_value()) {
    co_return absl::InvalidArgumentError("the request message is missing");
  }
  CO_ASSIGN_OR_RETURN(MatmulRequest request,
                      ReadHeader(runtime, call, **first));
  CO_ASSIGN_OR_RETURN(std::vector<jit::MatrixLayout> layouts,
                      Layouts(runtime, request));
  std::optional<Stream> stream;
  {
    absl::StatusOr<Temporaries> temporaries = co_await TakeTemporaries(
        runtime, call, std::move(layouts), request.device);
    if (!temporaries.ok()) co_return temporaries.status();
    CO_ASSIGN_OR_RETURN(
        stream, ToStream(runtime, call, std::move(request), *temporaries));
  }
  call.NoteTensorRoom();
  const EarlyPreparation preparation(runtime.engine, call,
                                     stream->request.product.problem,
                                     stream->request.device);

  ChunkReader chunks(stream->request, stream->incoming);
  const auto read_chunk = [&](const Message& message) {
    return chunks.Read(message);
  };
  MatrixReceiver receiver(runtime, call,
                          std::min(runtime.limits.max_message_bytes,
                                   kMaxChunkBytes + kChunkPrefixBytes),
                          stream->incoming, read_chunk);
  absl::Status received = co_await receiver.Run();
  if (!received.ok()) co_return received;

  // With the product go its operands: the device has their room again.
  auto multiply = CallEngine<engine::ProductResult>(
      call.loop(), [&](engine::Done<engine::ProductResult> done) {
        runtime.engine.Multiply(std::move(stream->request.product),
                                stream->request.device, call.request_context(),
                                std::move(done));
      });
  absl::StatusOr<engine::ProductResult> result = co_await multiply;
  if (!result.ok()) co_return result.status();
  if (stream->has_lasting_result) call.NoteCarriedOut();

  engine::Phases& phases = result->execution.phases;
  for (OutgoingMatrix& matrix : stream->outgoing) {
    absl::Status sent = co_await SendMatrix(runtime, call, matrix);
    if (!sent.ok()) co_return sent;
    phases.download += matrix.fetch_time;
    matrix.tensor.reset();
  }
  preparation.Credit(result->execution);
  phases.upload += receiver.upload_time();
  v1::MatmulStreamResponse last;
  *last.mutable_execution() = ToWire(result->execution);
  if (result->amax) last.set_amax(*result->amax);
  call.Respond(Serialize(last));
  co_return absl::OkStatus();
}

}  // namespace gemmd::rpc
