// Client::Matmul: the request is the serialised header followed by the
// operands' own memory as slices; results are copied once, out of the slices in
// which they arrive.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "clients/cpp/client.h"
#include "clients/cpp/loan.h"
#include "clients/cpp/matmul_header.h"
#include "clients/cpp/matmul_response.h"
#include "clients/cpp/slice_reader.h"
#include "clients/cpp/striping.h"
#include "clients/cpp/unary.h"
#include "jit/base/status.h"

namespace gemmd::client {
namespace {

constexpr char kMethod[] = "/gemmd.v1.MatmulService/Matmul";
constexpr char kGroupedMethod[] = "/gemmd.v1.MatmulService/MatmulGrouped";

// The fields of a MatmulRequest.
std::vector<grpc::Slice> Encode(const Product& product, Loan& loan) {
  const OutgoingProduct outgoing = ToOutgoing(product);
  const std::string head = outgoing.header.SerializeAsString();
  std::vector<grpc::Slice> slices;
  slices.emplace_back(
      FieldPrefix(v1::MatmulRequest::kHeaderFieldNumber, head.size()) + head);
  for (const InlineOperand& operand : outgoing.operands) {
    slices.emplace_back(FieldPrefix(operand.field, operand.bytes.size()));
    slices.push_back(loan.Lend(operand.bytes));
  }
  return slices;
}

}  // namespace

absl::StatusOr<Result> Client::Matmul(const Product& product) {
  const absl::Time end = EndOf(product.timeout);
  const Striping striping = product.striping.value_or(options_.striping);
  const int connections = ConnectionsFor(striping, striping.least_bytes);
  if (connections > 1 && Streams(product, striping.least_bytes) &&
      product.idempotency_key.empty()) {
    ASSIGN_OR_RETURN(std::optional<Result> result,
                     MatmulStriped(product, connections));
    if (result) return *std::move(result);
  }
  const uint64_t room = MessageRoom(TravellingBytes(product), end);
  const uint64_t limit = product.stream_bytes.value_or(options_.stream_bytes);
  if (Streams(product, std::min(limit, room))) {
    return MatmulStream(product, room, end);
  }
  Loan loan;  // Outlives the context, whose end lets the transport go.
  grpc::ClientContext context;
  Prepare(context, end);
  RETURN_IF_ERROR(SetKey(context, product.idempotency_key));
  const std::vector<grpc::Slice> slices = Encode(product, loan);
  grpc::ByteBuffer request(slices.data(), slices.size());
  Announce(context, request.Length(), options_.checksums);
  ASSIGN_OR_RETURN(
      const grpc::ByteBuffer response,
      CallRaw(channel_, kMethod, context, request, options_.checksums));
  ASSIGN_OR_RETURN(SliceReader reader, SliceReader::Create(response));
  Result result;
  RETURN_IF_ERROR(ReadResponse(reader, 0, product, result));
  return result;
}

absl::StatusOr<std::vector<Result>> Client::MatmulGrouped(
    absl::Span<const Product> products, absl::Duration timeout) {
  Loan loan;  // As above.
  grpc::ClientContext context;
  Prepare(context, timeout);
  std::vector<grpc::Slice> slices;
  for (const Product& product : products) {
    std::vector<grpc::Slice> group = Encode(product, loan);
    uint64_t length = 0;
    for (const grpc::Slice& slice : group) length += slice.size();
    slices.emplace_back(
        FieldPrefix(v1::MatmulGroupedRequest::kGroupsFieldNumber, length));
    for (grpc::Slice& slice : group) slices.push_back(std::move(slice));
  }
  grpc::ByteBuffer request(slices.data(), slices.size());
  slices.clear();  // The call alone keeps what was lent.
  Announce(context, request.Length(), options_.checksums);
  ASSIGN_OR_RETURN(
      const grpc::ByteBuffer response,
      CallRaw(channel_, kGroupedMethod, context, request, options_.checksums));
  return ReadResponses(
      response, v1::MatmulGroupedResponse::kGroupsFieldNumber, "groups",
      products, [](const SliceReader::Field& field, SliceReader& reader) {
        reader.Skip(field.length);
        return absl::OkStatus();
      });
}

}  // namespace gemmd::client
