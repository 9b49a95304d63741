#include "service/rpc/keyed_answer.h"

#include <algorithm>
#include <utility>

#include "jit/base/status.h"
#include "proto/checksum/checksum.h"

namespace gemmd::rpc {
namespace {

// Of a request, to tell others from it.
constexpr size_t kComparedBytes = 64 << 10;

uint32_t ChecksumOfBeginning(const Message& message) {
  uint32_t crc32c = 0;
  size_t left = kComparedBytes;
  for (const Piece& piece : message.pieces()) {
    const Piece part = piece.first(std::min(left, piece.size()));
    crc32c = checksum::Extend(crc32c, {part.data(), part.size()});
    left -= part.size();
  }
  return crc32c;
}

}  // namespace

absl::StatusOr<std::optional<std::string>> KeyedAnswer::Claim(
    absl::string_view principal, absl::string_view method,
    const Message& message) {
  if (key_.empty() || is_claimed()) return std::nullopt;
  ASSIGN_OR_RETURN(KeptAnswers::Found found,
                   kept_.Find({.principal = std::string(principal),
                               .key = key_,
                               .method = std::string(method),
                               .bytes = message.size(),
                               .crc32c = ChecksumOfBeginning(message)},
                              KeptAnswers::Clock::now()));
  if (auto* claim = std::get_if<std::unique_ptr<KeptAnswers::Claim>>(&found)) {
    claim_ = std::move(*claim);
    return std::nullopt;
  }
  return std::get<std::string>(std::move(found));
}

void KeyedAnswer::Keep(const grpc::ByteBuffer* answer) {
  if (!is_claimed()) return;
  std::optional<std::string> kept;
  if (answer != nullptr && answer->Length() <= KeptAnswers::kMostAnswerBytes) {
    kept = Join(*answer);
  }
  claim_->Keep(std::move(kept), KeptAnswers::Clock::now());
}

}  // namespace gemmd::rpc
