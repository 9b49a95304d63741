// Client::MatmulStream: operands are sent from their own memory in chunks, and
// results are copied once, to where they belong.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/cpp/client.h"
#include "clients/cpp/loan.h"
#include "clients/cpp/matmul_header.h"
#include "clients/cpp/read_result.h"
#include "clients/cpp/slice_reader.h"
#include "clients/cpp/stream.h"
#include "clients/cpp/unary.h"
#include "jit/base/status.h"

namespace gemmd::client {
namespace {

constexpr char kMethod[] = "/gemmd.v1.MatmulService/MatmulStream";
constexpr uint64_t kChunkBytes = 2 << 20;
// A chunk has that much beside its bytes, at most.
constexpr size_t kPrefixBytes = 64;

grpc::ByteBuffer FirstMessage(const v1::MatmulHeader& header) {
  v1::MatmulStreamRequest first;
  *first.mutable_header() = header;
  const grpc::Slice slice(first.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// A MatmulStreamRequest with one chunk of an operand.
grpc::ByteBuffer ChunkMessage(const InlineOperand& operand,
                              absl::Span<const char> bytes, Loan& loan) {
  using Request = v1::MatmulStreamRequest;
  Request::Chunk chunk;
  // Operands are numbered as their fields of MatmulRequest, from A on.
  chunk.set_operand(static_cast<Request::Operand>(
      operand.field - v1::MatmulRequest::kAFieldNumber + Request::OPERAND_A));
  const std::string inner =
      chunk.SerializeAsString() +
      FieldPrefix(Request::Chunk::kDataFieldNumber, bytes.size());
  const grpc::Slice slices[] = {
      grpc::Slice(
          FieldPrefix(Request::kChunkFieldNumber, inner.size() + bytes.size()) +
          inner),
      loan.Lend(bytes)};
  return grpc::ByteBuffer(slices, 2);
}

// False when the call has ended early; Finish says why.
bool SendAll(const OutgoingProduct& outgoing, size_t chunk_bytes,
             Stream& stream, Loan& loan) {
  if (!stream.Write(FirstMessage(outgoing.header))) return false;
  for (const InlineOperand& operand : outgoing.operands) {
    for (absl::Span<const char> rest = operand.bytes; !rest.empty();) {
      const auto bytes = rest.subspan(0, std::min(chunk_bytes, rest.size()));
      if (!stream.Write(ChunkMessage(operand, bytes, loan))) return false;
      rest.remove_prefix(bytes.size());
    }
  }
  return stream.WritesDone();
}

// A result that comes in chunks.
struct Output {
  absl::Status Take(uint64_t length, SliceReader& reader) {
    if (length > size - come) {
      return absl::InternalError(absl::StrCat("the daemon sent more than the ",
                                              size, " bytes of ", name));
    }
    // Not before the daemon has taken the product: any size can be asked for.
    if (place.data() == nullptr) {
      otherwise.resize(size);
      place = absl::MakeSpan(otherwise.data(), otherwise.size());
    }
    reader.Read(place.subspan(come, length));
    come += length;
    return absl::OkStatus();
  }

  int field;  // Of MatmulStreamResponse.
  absl::string_view name;
  absl::Span<char> place;  // Its own;
  std::string& otherwise;  // without one, this gets it.
  uint64_t size;
  uint64_t come = 0;
};

Output ToOutput(int field, absl::string_view name, const Destination& to,
                const v1::Problem& problem, std::string& otherwise) {
  return {field, name, to.bytes, otherwise, BytesTo(to, problem)};
}

uint64_t BytesOf(const std::vector<Output>& outputs) {
  uint64_t sum = 0;
  for (const Output& output : outputs) sum += output.come;
  return sum;
}

// The last one has no bytes: of others there could be any number.
absl::Status TakeMessage(const grpc::ByteBuffer& message,
                         std::vector<Output>& outputs, Result& result,
                         bool& had_last) {
  const uint64_t before = BytesOf(outputs);
  ASSIGN_OR_RETURN(SliceReader reader, SliceReader::Create(message));
  RETURN_IF_ERROR(ReadResult<v1::MatmulStreamResponse>(
      reader, 0, absl::MakeSpan(outputs), result));
  if (BytesOf(outputs) > before) return absl::OkStatus();
  if (std::exchange(had_last, true)) {
    return absl::InternalError(
        "the daemon sent a second message without bytes");
  }
  return absl::OkStatus();
}

absl::Status CheckWhole(const Product& product,
                        const std::vector<Output>& outputs,
                        const Result& result) {
  if (product.problem.epilogue().amax() && !result.amax) {
    return absl::InternalError("the daemon sent no amax");
  }
  for (const Output& output : outputs) {
    if (output.come == output.size) continue;
    return absl::InternalError(absl::StrCat("the daemon sent ", output.come,
                                            " of the ", output.size,
                                            " bytes of ", output.name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Result> Client::MatmulStream(const Product& product,
                                            uint64_t room, absl::Time end) {
  const OutgoingProduct outgoing = ToOutgoing(product);
  Loan loan;  // Outlives the context, whose end lets the transport go.
  grpc::ClientContext context;
  Prepare(context, end);
  RETURN_IF_ERROR(SetKey(context, product.idempotency_key));
  const size_t chunk_bytes = std::min(kChunkBytes, room);
  size_t longest = 0;
  for (const InlineOperand& operand : outgoing.operands) {
    longest = std::max(longest, std::min(chunk_bytes, operand.bytes.size()));
  }
  Announce(context, longest + kPrefixBytes, options_.checksums);
  Stream stream(channel_, kMethod, context, options_.checksums);
  Result result;
  absl::Status taken;
  if (SendAll(outgoing, chunk_bytes, stream, loan)) {
    using Response = v1::MatmulStreamResponse;
    const v1::Problem& problem = product.problem;
    std::vector<Output> outputs = {ToOutput(Response::kDataFieldNumber, "D",
                                            product.d, problem, result.d)};
    if (problem.epilogue().auxiliary()) {
      outputs.push_back(ToOutput(Response::kAuxiliaryFieldNumber,
                                 "the auxiliary result", product.auxiliary,
                                 problem, result.auxiliary));
    }
    bool had_last = false;
    for (grpc::ByteBuffer message; taken.ok() && stream.Read(message);) {
      taken = TakeMessage(message, outputs, result, had_last);
    }
    if (!taken.ok()) context.TryCancel();
    absl::Status finished = stream.Finish();
    if (!taken.ok()) return taken;
    RETURN_IF_ERROR(finished);
    RETURN_IF_ERROR(CheckWhole(product, outputs, result));
    return result;
  }
  RETURN_IF_ERROR(stream.Finish());
  return absl::InternalError("the daemon ended the call without an answer");
}

}  // namespace gemmd::client
