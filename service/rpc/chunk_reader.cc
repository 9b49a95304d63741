#include "service/rpc/chunk_reader.h"

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "jit/base/status.h"
#include "service/rpc/wire_reader.h"

namespace gemmd::rpc {
namespace {

using Request = v1::MatmulStreamRequest;

// The fields of a MatmulStreamRequest.Chunk.
struct Fields {
  uint64_t operand = 0;
  Pieces data;
};

absl::StatusOr<Fields> ReadFields(absl::Span<const Piece> chunk) {
  Fields fields;
  WireReader reader(chunk);
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return fields;
    if (reader.number() == Request::Chunk::kOperandFieldNumber) {
      fields.operand = reader.varint();
    } else if (reader.length_delimited() &&
               reader.number() == Request::Chunk::kDataFieldNumber) {
      fields.data = reader.value();
    }
  }
}

absl::StatusOr<Fields> ReadMessage(const Message& message) {
  std::optional<Pieces> chunk;
  WireReader reader(message.pieces());
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) break;
    if (!reader.length_delimited()) continue;  // Unknown to us.
    if (reader.number() == Request::kHeaderFieldNumber) {
      return absl::InvalidArgumentError(
          "header comes again; allowed: once, in the first message");
    }
    if (reader.number() == Request::kChunkFieldNumber) chunk = reader.value();
  }
  if (!chunk) {
    return absl::InvalidArgumentError(
        "chunk is missing; allowed after the header: messages of one each");
  }
  return ReadFields(*chunk);
}

}  // namespace

absl::StatusOr<Chunk> ChunkReader::Read(const Message& message) {
  ASSIGN_OR_RETURN(Fields fields, ReadMessage(message));
  ASSIGN_OR_RETURN(const std::string name, OperandName(fields.operand));
  const auto operand = static_cast<Request::Operand>(fields.operand);
  if (absl::c_linear_search(request_.unread, operand))
    return Chunk{nullptr, std::move(fields.data)};
  const auto found = absl::c_find_if(
      request_.awaited,
      [&](const AwaitedOperand& one) { return one.operand == operand; });
  if (found == request_.awaited.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk of ", name,
        ", which is a tensor, in a region or empty; allowed: chunks of ",
        Awaited()));
  }
  const size_t index = found - request_.awaited.begin();
  if (index < current_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk of ", name, " after one of ", request_.awaited[current_].name,
        "; allowed: chunks of ", Awaited(), ", operand after operand"));
  }
  for (; current_ < index; ++current_) {
    const absl::Status whole = matrices_[current_].lines.CheckComplete();
    if (!whole.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(whole.message(), ", and ", name, " has begun"));
    }
  }
  return Chunk{&matrices_[index], std::move(fields.data)};
}

std::string ChunkReader::Awaited() const {
  if (request_.awaited.empty()) return "nothing";
  return absl::StrJoin(request_.awaited, ", ",
                       [](std::string* out, const AwaitedOperand& one) {
                         out->append(one.name);
                       });
}

}  // namespace gemmd::rpc
