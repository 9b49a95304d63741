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

absl::StatusOr<bool> StepHeaders::ReadInParts(absl::string_view bytes) {
  const absl::string_view problem = LeadingProblem(bytes);
  if (problem.empty()) return false;
  // One that comes in several parts is merged, and nobody's but its own.
  const size_t end = problem.data() + problem.size() - bytes.data();
  if (!Parse(bytes.substr(end), header_) || header_.has_problem()) return false;
  auto known = problems_.find(problem);
  if (known == problems_.end()) {
    v1::Problem wire;
    if (!Parse(problem, wire)) return false;
    ASSIGN_OR_RETURN(const jit::Problem read, ToProblem(wire));
    known = problems_.emplace(problem, read).first;
  }
  problem_ = known->second;
  return true;
}

absl::Status StepHeaders::Read(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const bool read, ReadInParts(bytes));
  if (read) return absl::OkStatus();
  header_.Clear();
  RETURN_IF_ERROR(rpc::Parse(std::string(bytes), "it", header_));
  ASSIGN_OR_RETURN(problem_, ReadProblem(header_));
  return absl::OkStatus();
}

}  // namespace gemmd::rpc
