#include "jit/compile/worker_protocol.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "jit/base/record.h"
#include "jit/base/socket_io.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

constexpr uint64_t kMaxMessageBytes = uint64_t{256} << 20;

enum Tag : uint32_t {
  kSource = 1,
  kOption = 2,
  kCode = 3,
  kMessage = 4,
  kCubin = 5,
  kLog = 6,
};

}  // namespace

std::string EncodeRequest(const CompileRequest& request) {
  RecordWriter writer;
  writer.Add(kSource, request.source);
  for (const std::string& option : request.options) {
    writer.Add(kOption, option);
  }
  return std::move(writer).Release();
}

absl::StatusOr<CompileRequest> DecodeRequest(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Record record, Record::Parse(bytes));
  CompileRequest request;
  ASSIGN_OR_RETURN(const absl::string_view source, record.Get(kSource));
  request.source = std::string(source);
  for (absl::string_view option : record.GetAll(kOption)) {
    request.options.emplace_back(option);
  }
  return request;
}

std::string EncodeReply(const absl::StatusOr<CompileOutput>& output) {
  RecordWriter writer;
  writer.AddInt(kCode, static_cast<int64_t>(output.status().code()));
  writer.Add(kMessage, output.status().message());
  writer.Add(kCubin, output.ok() ? output->cubin : "");
  writer.Add(kLog, output.ok() ? output->log : "");
  return std::move(writer).Release();
}

absl::Status DecodeReply(absl::string_view bytes,
                         absl::StatusOr<CompileOutput>& output) {
  ASSIGN_OR_RETURN(const Record record, Record::Parse(bytes));
  ASSIGN_OR_RETURN(const int64_t code, record.GetInt(kCode));
  ASSIGN_OR_RETURN(const absl::string_view message, record.Get(kMessage));
  ASSIGN_OR_RETURN(const absl::string_view cubin, record.Get(kCubin));
  ASSIGN_OR_RETURN(const absl::string_view log, record.Get(kLog));
  // Any other number would not survive the cast: 2^32 would become OK.
  if (code < 0 ||
      code > static_cast<int64_t>(absl::StatusCode::kUnauthenticated)) {
    return absl::DataLossError(absl::StrCat("reply has the code ", code));
  }
  if (code == 0) {
    output =
        CompileOutput{.cubin = std::string(cubin), .log = std::string(log)};
  } else {
    output = absl::Status(static_cast<absl::StatusCode>(code), message);
  }
  return absl::OkStatus();
}

absl::Status SendMessage(int socket, absl::string_view bytes,
                         absl::Time deadline) {
  std::string length;
  AppendU64(length, bytes.size());
  RETURN_IF_ERROR(SendExactly(socket, deadline, length));
  return SendExactly(socket, deadline, bytes);
}

absl::StatusOr<std::string> ReceiveMessage(int socket, absl::Time deadline) {
  std::string head(sizeof(uint64_t), '\0');
  RETURN_IF_ERROR(ReceiveExactly(socket, deadline, head.data(), head.size()));
  absl::string_view rest = head;
  uint64_t length = 0;
  CHECK(TakeU64(rest, length));
  if (length > kMaxMessageBytes) {
    return absl::DataLossError(absl::StrCat("a message of ", length, " bytes"));
  }
  std::string bytes(length, '\0');
  RETURN_IF_ERROR(ReceiveExactly(socket, deadline, bytes.data(), bytes.size()));
  return bytes;
}

}  // namespace gemmd::jit
