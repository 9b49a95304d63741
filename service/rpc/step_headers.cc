#include "service/rpc/step_headers.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "jit/base/status.h"
#include "service/rpc/convert.h"
#include "service/rpc/matmul_request.h"
#include "service/rpc/parse.h"

namespace gemmd::rpc {
namespace {

using google::protobuf::internal::WireFormatLite;

// The problem's bytes where the header begins with them, as those of protobuf
// do; else none.
absl::string_view LeadingProblem(absl::string_view header) {
  google::protobuf::io::CodedInputStream input(
      reinterpret_cast<const uint8_t*>(header.data()),
      static_cast<int>(header.size()));
  const uint32_t tag =
      WireFormatLite::MakeTag(v1::MatmulHeader::kProblemFieldNumber,
                              WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  uint32_t size = 0;
  if (input.ReadTag() != tag || !input.ReadVarint32(&size)) return {};
  const absl::string_view rest = header.substr(input.CurrentPosition());
  return size > rest.size() ? absl::string_view() : rest.substr(0, size);
}

bool Parse(absl::string_view bytes, google::protobuf::Message& message) {
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace

absl::string_view StepHeaders::Keep(absl::string_view bytes) {
  char* const kept =
      google::protobuf::Arena::CreateArray<char>(&arena_, bytes.size());
  bytes.copy(kept, bytes.size());
  return {kept, bytes.size()};
}

bool StepHeaders::ReadRest(absl::string_view rest) {
  auto known = headers_.find(rest);
  if (known == headers_.end()) {
    auto* const header = NewHeader();
    // One that comes in several parts is merged, and nobody's but its own.
    if (!Parse(rest, *header) || header->has_problem()) return false;
    known = headers_.emplace(Keep(rest), header).first;
  }
  header_ = known->second;
  return true;
}

absl::StatusOr<bool> StepHeaders::ReadInParts(absl::string_view bytes) {
  const absl::string_view problem = LeadingProblem(bytes);
  if (problem.empty()) return false;
  if (!ReadRest(bytes.substr(problem.data() + problem.size() - bytes.data()))) {
    return false;
  }
  auto known = problems_.find(problem);
  if (known == problems_.end()) {
    v1::Problem wire;
    if (!Parse(problem, wire)) return false;
    ASSIGN_OR_RETURN(const jit::Problem read, ToProblem(wire));
    known = problems_.emplace(Keep(problem), read).first;
  }
  problem_ = known->second;
  return true;
}

absl::Status StepHeaders::Read(const std::string& bytes) {
  ASSIGN_OR_RETURN(const bool read, ReadInParts(bytes));
  if (read) return absl::OkStatus();
  auto* const header = NewHeader();
  RETURN_IF_ERROR(rpc::Parse(bytes, "it", *header));
  ASSIGN_OR_RETURN(problem_, ReadProblem(*header));
  header_ = header;
  return absl::OkStatus();
}

}  // namespace gemmd::rpc
