#include "service/rpc/groups.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/rpc/wire_reader.h"

namespace gemmd::rpc {
namespace {

// Beside the matrices: an Execution takes a few hundred bytes.
constexpr int64_t kMoreOfAnAnswer = 1024;

absl::StatusOr<std::vector<Pieces>> ReadGroups(absl::Span<const Piece> pieces) {
  std::vector<Pieces> groups;
  WireReader reader(pieces, kMaxGroups + WireReader::kMaxFields);
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return groups;
    if (reader.length_delimited() &&
        reader.number() == v1::MatmulGroupedRequest::kGroupsFieldNumber) {
      if (groups.size() == kMaxGroups) {
        return absl::InvalidArgumentError(absl::StrCat(
            "groups: more than ", kMaxGroups, "; allowed: 0 to ", kMaxGroups));
      }
      groups.push_back(reader.value());
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<MatmulRequest>> ToGroups(
    absl::Span<const Piece> pieces, const Asker& asker, int64_t& result_bytes) {
  ASSIGN_OR_RETURN(const std::vector<Pieces> groups, ReadGroups(pieces));
  std::vector<MatmulRequest> requests;
  requests.reserve(groups.size());
  int64_t header_bytes = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    absl::StatusOr<MatmulFields> fields = ReadMatmulFields(groups[i]);
    if (!fields.ok()) return engine::OfGroup(i, fields.status());
    header_bytes += static_cast<int64_t>(fields->header.ByteSizeLong());
    if (header_bytes > kMaxGroupHeaderBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the headers of groups have more than ",
                       kMaxGroupHeaderBytes, " bytes in all"));
    }
    absl::StatusOr<MatmulRequest> request =
        ToMatmulRequest(*std::move(fields), asker);
    if (!request.ok()) return engine::OfGroup(i, request.status());
    result_bytes += request->result_bytes + kMoreOfAnAnswer;
    if (result_bytes > asker.runtime.limits.max_message_bytes) {
      return engine::OfGroup(i, absl::ResourceExhaustedError(absl::StrCat(
                                    "results until here have ", result_bytes,
                                    " bytes; a response is limited to ",
                                    asker.runtime.limits.max_message_bytes,
                                    ". Let d be a tensor.")));
    }
    requests.push_back(*std::move(request));
  }
  return requests;
}

}  // namespace gemmd::rpc
